//! Events of the connection manager, as C gets them.

use super::attributes;
use super::id::Id;
use super::qp::with_qp;
use super::table::{DeliveredEvent, find, table};
use crate::errors::ToErrno;
use crate::log;
use crate::prelude::*;
use crate::strings;
use crate::wait::{self, Found, blocks};
use roce_verbs::rdma_cm::{self, Event, EventData, EventKind, Failure};
use roce_verbs::roce_cm::{Reply, Request};
use std::os::fd::{AsFd, AsRawFd};

/// Waits until the program has acknowledged the ID's events, for a call of this name.
pub(super) fn wait_for_acknowledgements(id: &Id, call: &str) {
    let unacknowledged = id.cm.unacknowledged();
    let of_this = |event: &DeliveredEvent| {
        let owner = event.unacknowledged.lock();
        let is_own = owner
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, unacknowledged));
        is_own.then(|| strings::cm_event_name(event.c.get().event))
    };
    let names = table().map_or_else(|_| Vec::new(), |table| table.events.select(of_this));
    let names = match names.is_empty() {
        true => String::new(),
        false => format!(": {}", names.join(", ")),
    };
    unacknowledged.wait_for_all(call, &names);
}

/// The number of an event in C.
fn number(kind: EventKind) -> u32 {
    match kind {
        EventKind::AddrResolved => CM_EVENT_ADDR_RESOLVED,
        EventKind::AddrError => CM_EVENT_ADDR_ERROR,
        EventKind::RouteResolved => CM_EVENT_ROUTE_RESOLVED,
        EventKind::ConnectRequest => CM_EVENT_CONNECT_REQUEST,
        EventKind::ConnectResponse => CM_EVENT_CONNECT_RESPONSE,
        EventKind::ConnectError => CM_EVENT_CONNECT_ERROR,
        EventKind::Unreachable => CM_EVENT_UNREACHABLE,
        EventKind::Rejected => CM_EVENT_REJECTED,
        EventKind::Established => CM_EVENT_ESTABLISHED,
        EventKind::Disconnected => CM_EVENT_DISCONNECTED,
        EventKind::MulticastJoin => CM_EVENT_MULTICAST_JOIN,
        EventKind::MulticastError => CM_EVENT_MULTICAST_ERROR,
        EventKind::TimewaitExit => CM_EVENT_TIMEWAIT_EXIT,
    }
}

/// The status of an event in C: the peer's reason, or an error number with a minus sign.
fn status(failure: Option<&Failure>) -> c_int {
    match failure {
        None => 0,
        Some(Failure::Peer(reason)) => (*reason).into(),
        Some(Failure::NoAnswer) => -(Errno::ETIMEDOUT as c_int),
        Some(Failure::Own(error)) => -(error.to_errno() as c_int),
    }
}

fn into_c(id: &Id, event: Event, number: u32, status: c_int) -> Result<*mut RdmaCmEvent, Errno> {
    let table = table()?;
    let mut c = RdmaCmEvent::zeroed();
    (c.id, c.event, c.status) = (id.as_ptr(), number, status);
    if let Some(child) = event.child {
        let child = Id::of_request(child, id);
        table.update(&child)?;
        child.fill_route()?;
        (c.id, c.listen_id) = (child.as_ptr(), id.as_ptr());
        table.ids.add(child);
    }
    c.param = param(&event.data, event.tag, &event.private);
    let delivered = Arc::new(DeliveredEvent {
        c: CPart::new(c),
        _private: event.private,
        unacknowledged: Mutex::new(Some(Arc::clone(event.id.unacknowledged()))),
    });
    let part = delivered.c.as_ptr();
    table.events.add(delivered);
    Ok(part)
}

/// The data of an event. `context` is the program's, of a group that it has joined.
fn param(data: &EventData, context: usize, private: &[u8]) -> RdmaParam {
    let len = u8::try_from(private.len()).unwrap_or(u8::MAX);
    let mut conn = match data {
        EventData::Datagram {
            path: Some(path),
            qpn,
            qkey,
        } => {
            let mut ud = RdmaUdParam {
                private_data: context as *const c_void,
                ah_attr: attributes::ah_attr(path),
                qp_num: qpn.get(),
                qkey: qkey.0,
                ..Zero::zeroed()
            };
            if !private.is_empty() {
                (ud.private_data, ud.private_data_len) = (private.as_ptr().cast(), len);
            }
            return RdmaParam { ud };
        }
        EventData::Request(request) => RdmaConnParam::from(&**request),
        EventData::Reply(reply) => RdmaConnParam::from(&**reply),
        _ => RdmaConnParam::zeroed(),
    };
    if !private.is_empty() {
        conn.private_data = In::at(private.as_ptr() as u64);
        conn.private_data_len = len;
    }
    RdmaParam { conn }
}

impl From<&Request> for RdmaConnParam {
    fn from(request: &Request) -> Self {
        Self {
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            flow_control: request.flow_control.into(),
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            srq: request.srq.into(),
            qp_num: request.qpn.get(),
            ..Zero::zeroed()
        }
    }
}

impl From<&Reply> for RdmaConnParam {
    fn from(reply: &Reply) -> Self {
        Self {
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            flow_control: reply.flow_control.into(),
            rnr_retry_count: reply.rnr_retry_count,
            srq: reply.srq.into(),
            qp_num: reply.qpn.get(),
            ..Zero::zeroed()
        }
    }
}

/// Takes the next event from a channel's queue, handles it, and returns it as a C event. If there is
/// none, returns the descriptor to wait for.
///
/// # Errors
/// `EAGAIN` if there is none and the descriptor is non-blocking.
fn next(channel: &rdma_cm::Channel) -> Result<Found<*mut RdmaCmEvent>, Errno> {
    let table = table()?;
    let Some(mut event) = rdma_cm::next_event(channel) else {
        if !blocks(channel)? {
            return Err(Errno::EAGAIN);
        }
        table.devices.hand_over();
        return Ok(Found::WhenReadable(channel.as_fd().as_raw_fd()));
    };
    let unacknowledged = Arc::clone(event.id.unacknowledged());
    // Its destruction waits for the acknowledgement, so it still exists.
    let owner = event
        .id
        .owner()
        .and_then(|owner| owner.downcast::<Id>().ok());
    let delivered = owner.ok_or(Errno::EINVAL).and_then(|id| {
        with_qp(&id, |qp| event.handle(qp));
        let (number, status) = (number(event.kind), status(event.failure.as_ref()));
        let why = event.report_failure(strings::cm_event_name(number), status);
        // If a synchronous call waits for the event, this is its reason, too.
        if let Some(why) = why {
            log::set_reason(|| why);
        }
        into_c(&id, event, number, status)
    });
    let delivered = delivered.inspect_err(|_| unacknowledged.acknowledge(1));
    delivered.map(Found::Now)
}

/// As [`next`], but waits for the event.
///
/// # Errors
/// `EAGAIN` if there is none and the descriptor is non-blocking, `EINTR` after a signal.
fn wait_for_next(channel: &rdma_cm::Channel) -> Result<*mut RdmaCmEvent, Errno> {
    loop {
        match next(channel)? {
            Found::Now(event) => return Ok(event),
            _ => wait::until_readable(channel)?,
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
    match next(&channel.queue)? {
        Found::Now(found) => event.put(found).map(Found::Now),
        _ => Ok(wait::when_readable(&channel.queue)),
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
pub(super) fn wait_if_sync(id: &Id) -> Result<(), Errno> {
    if !id.is_sync() {
        return Ok(());
    }
    acknowledge_sync_event(id)?;
    let event = wait_for_next(&id.cm.channel())?;
    id.c.set(|c| c.event = event);
    match table()?.events.find(event)?.c.get().status {
        0 => Ok(()),
        // The peer's reject reason or status.
        1.. => Err(Errno::ECONNREFUSED),
        status => Err(Errno::from_raw(status.saturating_neg())),
    }
}

/// Waits for the next request of a synchronous listener. The event becomes that of the connection's
/// ID.
pub(super) fn next_request(listener: &Id) -> Result<Arc<Id>, Errno> {
    listener.cm.check_listens().or_errno()?;
    if !listener.is_sync() {
        return Err(Errno::EINVAL);
    }
    let event = wait_for_next(&listener.cm.channel())?;
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
