//! Events of the connection manager. They are queued when they occur, and handled when the program
//! gets them.

use super::channel::Channel;
use super::failure::{self, Outcome};
use super::handle;
use super::id::{EventData, Id, PendingEvent, State};
use super::table::{DeliveredEvent, find, table};
use crate::prelude::*;
use crate::wait::{self, Found};
use roce_verbs::why::Ends;

impl PendingEvent {
    /// The ends of the connection, for reports, and the ID's device.
    fn ends_and_device(&self) -> (Ends, Option<roce_verbs::Context>) {
        let inner = self.id.inner.lock();
        let ends = Ends::new(inner.local, inner.remote, self.id.space);
        // Only the end that requests a connection has a port of its own.
        let is_passive = inner.connection.is_some() && inner.claim.is_none();
        let ends = if is_passive { ends.passive() } else { ends };
        let device = inner.device.as_ref();
        (ends, device.and_then(|device| device.roce().ok()).cloned())
    }

    fn into_c(self) -> Result<*mut RdmaCmEvent, Errno> {
        let mut c = RdmaCmEvent::zeroed();
        let of = self.child.as_ref().unwrap_or(&self.id);
        c.id = of.as_ptr();
        if self.child.is_some() {
            c.listen_id = self.id.as_ptr();
        }
        (c.event, c.status) = (self.event, self.status);
        c.param = self.data.param(&self.private);
        let delivered = Arc::new(DeliveredEvent {
            c: CPart::new(c),
            _private: self.private,
            unacknowledged: Mutex::new(Some(Arc::clone(&self.id.unacknowledged))),
        });
        let part = delivered.c.as_ptr();
        let table = table()?;
        if let Some(child) = self.child {
            table.ids.add(child);
        }
        table.events.add(delivered);
        Ok(part)
    }
}

impl EventData {
    fn param(self, private: &[u8]) -> RdmaParam {
        let len = u8::try_from(private.len()).unwrap_or(u8::MAX);
        let mut conn = match self {
            Self::Empty | Self::RemoteQp(..) => RdmaConnParam::zeroed(),
            Self::Connection(conn) => conn,
            Self::Datagram(mut ud) => {
                if !private.is_empty() {
                    (ud.private_data, ud.private_data_len) = (private.as_ptr().cast(), len);
                }
                return RdmaParam { ud };
            }
        };
        if !private.is_empty() {
            conn.private_data = In::at(private.as_ptr() as u64);
            conn.private_data_len = len;
        }
        RdmaParam { conn }
    }
}

/// Takes the next event from a channel's queue, handles it, and returns it as a C event. Handling
/// may change the state of QPs and send messages to the peer. If there is none, returns the
/// descriptor to wait for.
///
/// # Errors
/// `EAGAIN` if there is none and the descriptor is non-blocking.
fn next(channel: &Channel<PendingEvent>) -> Result<Found<*mut RdmaCmEvent>, Errno> {
    let table = table()?;
    let mut event = match channel.next(|event| event.id.unacknowledged.increment())? {
        Found::Now(event) => event,
        Found::WhenReadable(fd) => {
            table.devices.hand_over();
            return Ok(Found::WhenReadable(fd));
        }
        Found::WhenDriven => return Ok(Found::WhenDriven),
    };
    handle::handle(&mut event);
    let outcome = Outcome {
        event: event.event,
        status: event.status,
        reason: event.reason.as_deref(),
        private: &event.private,
    };
    failure::report(outcome, || event.ends_and_device());
    event.into_c().map(Found::Now)
}

/// As [`next`], but waits for the event.
///
/// # Errors
/// `EAGAIN` if there is none and the descriptor is non-blocking, `EINTR` after a signal.
fn wait_for_next(channel: &Channel<PendingEvent>) -> Result<*mut RdmaCmEvent, Errno> {
    loop {
        match next(channel)? {
            Found::Now(event) => return Ok(event),
            _ => channel.wait()?,
        }
    }
}

pub(crate) extern "C-unwind" fn get_cm_event(
    channel: *mut RdmaEventChannel,
    event: Out<*mut RdmaCmEvent>,
) -> c_int {
    wait::until_found("rdma_get_cm_event", move || attempt_get(channel, event))
}

/// Takes the next event of the channel, if there is one.
fn attempt_get(
    channel: *mut RdmaEventChannel,
    event: Out<*mut RdmaCmEvent>,
) -> Result<Found<()>, Errno> {
    let Some(channel) = table()?.find_channel(channel)? else {
        return Ok(Found::WhenReadable(wait::NEVER));
    };
    event.get()?;
    match next(&channel)? {
        Found::Now(found) => event.put(found).map(Found::Now),
        _ => Ok(channel.when_readable()),
    }
}

pub(crate) extern "C" fn ack_cm_event(event: *mut RdmaCmEvent) -> c_int {
    guard::minus_one("rdma_ack_cm_event", || acknowledge(event))
}

fn acknowledge(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    table()?.events.remove(event)?.acknowledge();
    Ok(())
}

/// Acknowledges the event of the ID's last synchronous call, if there is one.
pub(super) fn acknowledge_sync_event(id: &Id) -> Result<(), Errno> {
    let mut event = std::ptr::null_mut();
    id.c.set(|c| event = std::mem::replace(&mut c.event, event));
    if event.is_null() {
        return Ok(());
    }
    acknowledge(event)
}

/// Waits for the event that ends a call, if the ID is synchronous.
///
/// # Errors
/// The error in the event.
pub(super) fn wait_if_sync(id: &Arc<Id>) -> Result<(), Errno> {
    if !id.inner.lock().sync {
        return Ok(());
    }
    acknowledge_sync_event(id)?;
    let event = wait_for_next(&id.channel())?;
    id.c.set(|c| c.event = event);
    check_status(event)
}

/// # Errors
/// The error in the event.
fn check_status(event: *mut RdmaCmEvent) -> Result<(), Errno> {
    let delivered = table()?.events.find(event)?.c.get();
    match delivered.status {
        0 => Ok(()),
        // The peer's reject reason or status.
        1.. => Err(Errno::ECONNREFUSED),
        status => Err(Errno::from_raw(status.saturating_neg())),
    }
}

/// Waits for the next request of a synchronous listener. The event becomes that of the connection's
/// ID.
pub(super) fn next_request(listener: &Arc<Id>) -> Result<Arc<Id>, Errno> {
    {
        let inner = listener.inner.lock();
        inner.check(&[State::Listening])?;
        if !inner.sync {
            return Err(Errno::EINVAL);
        }
    }
    let event = wait_for_next(&listener.channel())?;
    let delivered = table()?.events.find(event)?;
    let c_event = delivered.c.get();
    if c_event.event != CM_EVENT_CONNECT_REQUEST {
        acknowledge(event)?;
        return Err(Errno::EINVAL);
    }
    let id = find(c_event.id)?;
    // The listener can be destroyed while the connection exists.
    delivered.acknowledge();
    id.c.set(|c| c.event = event);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::super::lifetime::{create_event_channel, destroy_event_channel};
    use super::*;

    /// A thread that comes too late does not return because the channel is gone: programs end
    /// meanwhile. rping's thread calls again after the channel was destroyed.
    #[test]
    fn a_thread_waits_for_ever_at_a_blocking_channel_that_was_destroyed() {
        let attempt = |channel| {
            let mut event = std::ptr::null_mut();
            let found = attempt_get(channel, Out::allocated(&raw mut event));
            found.map(|found| matches!(found, Found::WhenReadable(wait::NEVER)))
        };
        assert_eq!(attempt(std::ptr::null_mut()), Err(Errno::EINVAL));
        let mut other = RdmaEventChannel { fd: 0 };
        assert_eq!(attempt(&raw mut other), Err(Errno::EINVAL));

        // Both exist at once, so that they have two addresses.
        let [blocking, other] = [create_event_channel(), create_event_channel()];
        // SAFETY: it is a channel's.
        let fd = unsafe { (*other).fd };
        // SAFETY: only numbers are passed.
        unsafe { nix::libc::fcntl(fd, nix::libc::F_SETFL, nix::libc::O_NONBLOCK) };
        assert_eq!(attempt(blocking), Ok(false));
        assert_eq!(attempt(other), Err(Errno::EAGAIN));
        for channel in [blocking, other] {
            destroy_event_channel(channel);
        }
        assert_eq!(attempt(blocking), Ok(true));
        assert_eq!(attempt(other), Err(Errno::EINVAL));
    }
}
