//! Completion channels.

use crate::abi::{IbvCompChannel, IbvCq};
use crate::context::{Context, State, make_blocking};
use crate::cq::Cq;
use crate::errors::OrErrno;
use crate::events::wait_readable;
use crate::guard;
use crate::pointer::{CPart, Handle, Object, Out};
use crate::usage::Users;
use roce_verbs::CompletionChannel;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// A completion channel.
#[repr(C)]
pub(crate) struct Channel {
    c: CPart<IbvCompChannel>,
    pub(crate) channel: CompletionChannel,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
}

// SAFETY: `c` is the first field.
unsafe impl Object for Channel {
    type C = IbvCompChannel;
}

/// `ibv_create_comp_channel`.
pub(crate) extern "C" fn create_comp_channel(context: Handle<Context>) -> *mut IbvCompChannel {
    guard::pointer(|| {
        let state = Arc::clone(&context.get()?.state);
        let channel = state.roce.create_channel().or_errno()?;
        make_blocking(&channel)?;
        Ok(Handle::give(Channel {
            c: CPart::new(IbvCompChannel {
                context,
                fd: channel.as_fd().as_raw_fd(),
                refcnt: 0,
            }),
            channel,
            state,
            users: Users::default(),
        }))
    })
}

/// `ibv_destroy_comp_channel`.
pub(crate) extern "C" fn destroy_comp_channel(channel: Handle<Channel>) -> c_int {
    guard::errno(|| {
        channel.get()?.users.check_none()?;
        channel.take().map(drop)
    })
}

/// `ibv_get_cq_event`.
pub(crate) extern "C" fn get_cq_event(
    channel: Handle<Channel>,
    cq: Out<*mut IbvCq>,
    cq_context: Out<*mut c_void>,
) -> c_int {
    guard::minus_one(|| {
        let Channel { channel, state, .. } = channel.get()?;
        loop {
            match channel.poll() {
                Some(id) => {
                    // Of a CQ that was destroyed meanwhile, nobody wants to know.
                    if let Some(found) = state.objects.channels.tell(&id) {
                        let found = Handle::<Cq>::named(found.cast());
                        cq_context.put(found.get()?.c_part().cq_context)?;
                        return cq.put(found.as_ptr().cast());
                    }
                }
                None => wait_readable(&state.roce, channel)?,
            }
        }
    })
}

/// `ibv_ack_cq_events`.
pub(crate) extern "C" fn ack_cq_events(cq: Handle<Cq>, events: c_uint) {
    guard::nothing(|| {
        cq.get()?.announced.acknowledge(events.into());
        Ok(())
    });
}
