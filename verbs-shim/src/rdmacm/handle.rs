//! What an event does to its ID when the program gets it.

use super::id::{EventData, Inner, PendingEvent, State};
use super::{path, qp};
use crate::log;
use crate::prelude::*;
use roce_verbs::roce_cm::RejectReason;

/// Handles an event. This may change the state of QPs and send messages to the peer.
pub(super) fn handle(event: &mut PendingEvent) {
    match event.event {
        CM_EVENT_CONNECT_RESPONSE => handle_reply(event),
        CM_EVENT_REJECTED | CM_EVENT_UNREACHABLE => handle_failure(event),
        CM_EVENT_CONNECT_REQUEST => handle_request(event),
        CM_EVENT_ESTABLISHED => handle_established(event),
        _ => {}
    }
}

/// A request reaches the program: its place in the backlog is free, and its ID belongs to the channel
/// of the listener, which may have moved since the request arrived.
fn handle_request(event: &PendingEvent) {
    let Some(child) = &event.child else { return };
    child.move_to(event.id.channel());
    let inner = child.inner.lock();
    // A request that was given up is in no backlog.
    let _ = inner.with_agent(|agent, _, connection| agent.leave_backlog(connection));
}

/// Handles the peer's REP. If the ID has a QP, brings it to RTS and sends an RTU; otherwise the
/// program does that (`rdma_establish`).
fn handle_reply(event: &mut PendingEvent) {
    let id = Arc::clone(&event.id);
    let mut inner = id.inner.lock();
    let (Some(reply), Some(_)) = (event.peer, inner.connection) else {
        return;
    };
    inner.peer = inner.peer.with_reply(&reply);
    if id.c.get().qp.as_ptr().is_null() {
        inner.state = State::ReplyReceived;
        return;
    }
    let ready = qp::to_rts(&id, &inner).and_then(|()| inner.send_rtu());
    match ready {
        Ok(()) => {
            inner.state = State::Connected;
            event.event = CM_EVENT_ESTABLISHED;
        }
        Err(errno) => {
            inner.state = State::Closed;
            reject(&inner);
            event.event = CM_EVENT_CONNECT_ERROR;
            event.status = -(errno as c_int);
            event.reason = log::take_reason();
        }
    }
}

/// Sends a REJ: this end can't use the connection. An error means that the connection is over
/// anyway.
fn reject(inner: &Inner) {
    let reason = RejectReason::NO_RESOURCES;
    let _ = inner.with_agent(|agent, now, connection| agent.reject(now, connection, reason, &[]));
}

/// Handles the establishment of a connection. For a datagram service, adds the path to the event.
fn handle_established(event: &mut PendingEvent) {
    let id = Arc::clone(&event.id);
    let mut inner = id.inner.lock();
    inner.state = State::Connected;
    let EventData::RemoteQp(qpn, qkey) = event.data else {
        return;
    };
    match path::to_peer(&inner) {
        Ok(ah_attr) => {
            event.data = EventData::Datagram(RdmaUdParam {
                ah_attr,
                qp_num: qpn,
                qkey,
                ..Zero::zeroed()
            });
        }
        Err(errno) => {
            event.event = CM_EVENT_CONNECT_ERROR;
            event.status = -(errno as c_int);
        }
    }
}

/// Handles a failed connection: flushes the QP's posted requests.
fn handle_failure(event: &PendingEvent) {
    let id = &event.id;
    id.inner.lock().state = State::Closed;
    if !id.is_datagram {
        // The QP may have been destroyed, or be in a state in which this is not possible.
        let _ = qp::to_error(id);
    }
}
