//! Events that go to a [`Listener`](super::Listener) or a [`Connection`](super::Connection) rather
//! than to the manager's sink.

use crate::qp::QueuePair;
use parking_lot::Mutex;
use roce_cm::{CmError, ConnectionId, Event, ListenerId, Path, Request};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// A connection request that the application has not accepted from the listener yet.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) connection: ConnectionId,
    pub(super) path: Path,
    pub(super) request: Request,
    /// The later events of the connection.
    pub(super) events: Receiver<Event>,
}

/// The destination of a connection's events.
#[derive(Debug)]
struct Route {
    sender: Sender<Event>,
    /// Goes to ERR when the connection ends.
    qp: Weak<QueuePair>,
}

/// The listeners and connections whose events do not go to the sink.
///
/// Its lock is taken before the agent's, so that an ID has its route before its first event.
#[derive(Debug, Default)]
pub(super) struct Routes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    listeners: HashMap<ListenerId, Sender<PendingRequest>>,
    connections: HashMap<ConnectionId, Route>,
}

impl Routes {
    /// Adds the listener that `listen` creates, and returns its queue of requests.
    pub(super) fn listener<E>(
        &self,
        listen: impl FnOnce() -> Result<ListenerId, E>,
    ) -> Result<(ListenerId, Receiver<PendingRequest>), E> {
        let mut table = self.0.lock();
        let id = listen()?;
        let (sender, requests) = channel();
        table.listeners.insert(id, sender);
        Ok((id, requests))
    }

    /// Adds the connection that `connect` requests, and returns its queue of events.
    pub(super) fn connection(
        &self,
        qp: &Arc<QueuePair>,
        connect: impl FnOnce() -> Result<ConnectionId, CmError>,
    ) -> Result<(ConnectionId, Receiver<Event>), CmError> {
        let mut table = self.0.lock();
        let id = connect()?;
        Ok((id, table.add(id, Arc::downgrade(qp))))
    }

    /// Sets the QP of a connection that the peer requested.
    pub(super) fn set_qp(&self, id: ConnectionId, qp: &Arc<QueuePair>) {
        if let Some(route) = self.0.lock().connections.get_mut(&id) {
            route.qp = Arc::downgrade(qp);
        }
    }

    pub(super) fn forget_listener(&self, id: ListenerId) {
        self.0.lock().listeners.remove(&id);
    }

    pub(super) fn forget_connection(&self, id: ConnectionId) {
        self.0.lock().connections.remove(&id);
    }

    /// Returns the destination of a connection's event, and the connection's QP. The last event of
    /// a connection removes its route.
    pub(super) fn route_of(
        &self,
        event: &Event,
    ) -> Option<(Sender<Event>, Option<Arc<QueuePair>>)> {
        let id = event.connection();
        let mut table = self.0.lock();
        let route = table.connections.get(&id)?;
        let found = (route.sender.clone(), route.qp.upgrade());
        if is_last(event) {
            table.connections.remove(&id);
        }
        Some(found)
    }

    /// Delivers a request to its listener, or returns the event if the listener has no route.
    pub(super) fn deliver_request(&self, event: Event) -> Option<Event> {
        let mut table = self.0.lock();
        let Event::Requested {
            connection,
            listener,
            path,
            request,
        } = event
        else {
            return Some(event);
        };
        let Some(sender) = table.listeners.get(&listener).cloned() else {
            return Some(Event::Requested {
                connection,
                listener,
                path,
                request,
            });
        };
        let events = table.add(connection, Weak::new());
        // Fails if the listener is being dropped, which refuses the request.
        let _ = sender.send(PendingRequest {
            connection,
            path,
            request,
            events,
        });
        None
    }
}

impl Table {
    fn add(&mut self, id: ConnectionId, qp: Weak<QueuePair>) -> Receiver<Event> {
        let (sender, events) = channel();
        self.connections.insert(id, Route { sender, qp });
        events
    }
}

fn is_last(event: &Event) -> bool {
    matches!(
        event,
        Event::TimeWaitOver { .. } | Event::Rejected { .. } | Event::Unreachable { .. }
    )
}
