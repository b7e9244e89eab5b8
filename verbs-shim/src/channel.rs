//! Completion channels.

use crate::drive;
use crate::handlers;
use crate::prelude::*;
use crate::state::State;
use crate::wait::{self, Found, blocks, make_blocking};
use roce_verbs::completion::CompletionChannel;
use std::ffi::c_uint;
use std::os::fd::{AsFd, AsRawFd};

#[repr(C)]
pub(crate) struct Channel {
    c: CPart<IbvCompChannel>,
    pub(crate) channel: CompletionChannel,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
}

first_part!(IbvCompChannel => Channel.c);

pub(crate) extern "C" fn create_comp_channel(context: Handle<IbvContext>) -> *mut IbvCompChannel {
    guard::pointer("ibv_create_comp_channel", || create(context))
}

/// As `ibv_create_comp_channel`.
pub(crate) fn create(context: Handle<IbvContext>) -> Result<*mut IbvCompChannel, Errno> {
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
    }))
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
    /// The CQ of the next event, whose count of unacknowledged events is incremented. If there is none
    /// and the channel is blocking, an event that the program has missed counts.
    ///
    /// # Errors
    /// `EAGAIN` if there is none and the channel is non-blocking.
    fn next_event(&self) -> Result<Found<Handle<IbvCq>>, Errno> {
        let Self { channel, state, .. } = self;
        // A call that waits already found the channel blocking. As in the kernel, it waits on if the
        // program changes that.
        let goes_on = drive::goes_on();
        let event = || match channel.poll() {
            None if goes_on || blocks(channel)? => Ok(channel.take_missed_event()),
            None => Err(Errno::EAGAIN),
            event => Ok(event),
        };
        while let Some(id) = event()? {
            // Skip the event if its CQ was destroyed meanwhile.
            if let Some(found) = state.objects.completions.acquire(&id) {
                return Ok(Found::Now(Handle::from_ptr(found.cast())));
            }
        }
        Ok(match goes_on {
            true => Found::WhenDriven,
            false => drive_or_wait(&state.roce, channel),
        })
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
