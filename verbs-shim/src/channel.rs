//! Completion channels.

use crate::drive;
use crate::handlers;
use crate::prelude::*;
use crate::state::State;
use crate::wait::{self, Found, blocks, make_blocking};
use roce_verbs::CompletionQueue;
use roce_verbs::completion::{CompletionChannel, CqId};
use std::collections::BTreeSet;
use std::ffi::c_uint;
use std::os::fd::{AsFd, AsRawFd};

/// CQs that had completions when the program requested an event for the next one. Existing
/// completions raise no event (IBTA 1.7, 10.8.7): the program must poll them before it waits.
/// perftest 4.5 polls only some of them, and waits forever if no other completion arrives (fixed in
/// perftest 23.07). On a blocking channel, `ibv_get_cq_event` returns an event for such a CQ
/// instead of waiting. On a non-blocking channel it still fails with `EAGAIN`.
#[derive(Debug, Default)]
pub(crate) struct MissedEvents {
    cqs: Mutex<BTreeSet<CqId>>,
}

impl MissedEvents {
    /// Records that the program requested an event, if the queue has completions.
    pub(crate) fn event_requested(&self, queue: &CompletionQueue) {
        if !queue.is_empty() {
            self.cqs.lock().insert(queue.id());
        }
    }

    /// For a blocking channel: takes a CQ whose missed event can be returned now, and increments its
    /// count of unacknowledged events.
    fn take(&self, of: &Channel) -> Result<Option<Handle<IbvCq>>, Errno> {
        loop {
            let Some(id) = self.cqs.lock().pop_first() else {
                return Ok(None);
            };
            let Some(found) = of.state.objects.completions.acquire(&id) else {
                continue;
            };
            let found = Handle::<IbvCq>::from_ptr(found.cast());
            let cq = found.get()?;
            if cq.queue.take_missed_event() {
                return Ok(Some(found));
            }
            cq.comp_events.acknowledge(1);
        }
    }
}

#[repr(C)]
pub(crate) struct Channel {
    c: CPart<IbvCompChannel>,
    pub(crate) channel: CompletionChannel,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
    pub(crate) missed_events: Arc<MissedEvents>,
}

first_part!(IbvCompChannel => Channel.c);

pub(crate) extern "C" fn create_comp_channel(context: Handle<IbvContext>) -> *mut IbvCompChannel {
    guard::pointer("ibv_create_comp_channel", || {
        let state = Arc::clone(&context.get()?.state);
        let channel = state.roce.create_channel().or_errno()?;
        make_blocking(&channel)?;
        Ok(Handle::into_raw(Channel {
            c: CPart::new(IbvCompChannel {
                context,
                fd: channel.as_fd().as_raw_fd(),
                refcnt: 0,
            }),
            channel,
            state,
            users: Users::default(),
            missed_events: Arc::default(),
        }))
    })
}

pub(crate) extern "C" fn destroy_comp_channel(channel: Handle<IbvCompChannel>) -> c_int {
    guard::errno("ibv_destroy_comp_channel", || {
        channel.get()?.users.check_none()?;
        channel.take().map(drop)
    })
}

pub(crate) extern "C-unwind" fn get_cq_event(
    channel: Handle<IbvCompChannel>,
    cq: Out<*mut IbvCq>,
    cq_context: Out<*mut c_void>,
) -> c_int {
    wait::until_found("ibv_get_cq_event", move || {
        match channel.get()?.next_event()? {
            Found::WhenReadable(fd) => Ok(Found::WhenReadable(fd)),
            Found::WhenDriven => Ok(Found::WhenDriven),
            Found::Now(found) => {
                cq_context.put(found.get()?.c_part().cq_context)?;
                cq.put(found.as_ptr()).map(Found::Now)
            }
        }
    })
}

impl Channel {
    /// The CQ of the next event, whose count of unacknowledged events is incremented.
    ///
    /// # Errors
    /// `EAGAIN` if there is none and the channel is non-blocking.
    fn next_event(&self) -> Result<Found<Handle<IbvCq>>, Errno> {
        let Self { channel, state, .. } = self;
        loop {
            match channel.poll() {
                Some(id) => {
                    // Skip the event if its CQ was destroyed meanwhile.
                    if let Some(found) = state.objects.completions.acquire(&id) {
                        return Ok(Found::Now(Handle::from_ptr(found.cast())));
                    }
                }
                None => {
                    // A call that waits already found the channel blocking. As in the kernel, it waits
                    // on if the program changes that.
                    let goes_on = drive::goes_on();
                    if !goes_on && !blocks(channel)? {
                        return Err(Errno::EAGAIN);
                    }
                    return match self.missed_events.take(self)? {
                        Some(found) => Ok(Found::Now(found)),
                        None if goes_on => Ok(Found::WhenDriven),
                        None => Ok(drive_or_wait(&state.roce, channel)),
                    };
                }
            }
        }
    }
}

/// For a call that waits for an event of the channel: it drives the NIC meanwhile, if it may.
fn drive_or_wait<T>(context: &roce_verbs::Context, channel: &CompletionChannel) -> Found<T> {
    if handlers::agree_on_restart()
        && let Some(driving) = channel.drive_while_waiting()
        && drive::begin(driving, channel.events())
    {
        return Found::WhenDriven;
    }
    context.hand_over();
    wait::when_readable(channel)
}

pub(crate) extern "C" fn ack_cq_events(cq: Handle<IbvCq>, events: c_uint) {
    guard::nothing("ibv_ack_cq_events", || {
        cq.get()?.acknowledge_comp_events(events);
        Ok(())
    });
}
