//! Events that go to a [`Listener`](super::Listener) or a [`Connection`](super::Connection) rather
//! than to the manager's sink.

use crate::qp::QueuePair;
use crate::runtime::EventQueue;
use parking_lot::Mutex;
use roce_cm::{CmError, ConnectionId, Event, ListenerId, Path, Request};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

/// The events of a connection that its owner has not taken yet. It is closed after the last one.
pub(super) type Events = Arc<EventQueue<Event>>;

/// The requests that a listener has not accepted yet.
pub(super) type Requests = Arc<EventQueue<PendingRequest>>;

/// A connection request that the application has not accepted from the listener yet.
pub(super) struct PendingRequest {
    pub(super) connection: ConnectionId,
    pub(super) path: Path,
    pub(super) request: Request,
    /// The later events of the connection.
    pub(super) events: Events,
}

debug_fields!(PendingRequest connection);

/// The destination of a connection's events.
struct Route {
    events: Events,
    /// Goes to ERR when the connection ends.
    qp: Weak<QueuePair>,
}

/// The listeners and connections whose events do not go to the sink.
///
/// Its lock is taken before the agent's, so that an ID has its route before its first event.
#[derive(Default)]
pub(super) struct Routes(Mutex<Table>);

#[derive(Default)]
struct Table {
    listeners: HashMap<ListenerId, Requests>,
    connections: HashMap<ConnectionId, Route>,
}

impl Routes {
    /// Adds the listener that `listen` creates. Its requests go to `requests`.
    pub(super) fn listener<E>(
        &self,
        requests: &Requests,
        listen: impl FnOnce() -> Result<ListenerId, E>,
    ) -> Result<ListenerId, E> {
        let mut table = self.0.lock();
        let id = listen()?;
        table.listeners.insert(id, Arc::clone(requests));
        Ok(id)
    }

    /// Adds the connection that `connect` requests. Its events go to `events`.
    pub(super) fn connection(
        &self,
        qp: &Arc<QueuePair>,
        events: &Events,
        connect: impl FnOnce() -> Result<ConnectionId, CmError>,
    ) -> Result<ConnectionId, CmError> {
        let mut table = self.0.lock();
        let id = connect()?;
        table.add(id, Arc::clone(events), Arc::downgrade(qp));
        Ok(id)
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

    /// Returns the QP of a connection's event, if the event goes to no sink.
    pub(super) fn qp_of(&self, event: &Event) -> Option<Option<Arc<QueuePair>>> {
        let table = self.0.lock();
        let route = table.connections.get(&event.connection())?;
        Some(route.qp.upgrade())
    }

    /// Delivers an event to its connection. The last event of a connection removes its route.
    pub(super) fn deliver(&self, event: Event) {
        let id = event.connection();
        let last = is_last(&event);
        let mut table = self.0.lock();
        if let Some(route) = table.connections.get(&id) {
            route.events.push(event);
            if last {
                route.events.close();
                table.connections.remove(&id);
            }
        }
    }

    /// Delivers a request to its listener, or returns the event if the listener has no route.
    ///
    /// # Errors
    /// The connection, if the system has no descriptor left for its events.
    pub(super) fn deliver_request(&self, event: Event) -> Result<Option<Event>, ConnectionId> {
        let mut table = self.0.lock();
        let Event::Requested {
            connection,
            listener,
            path,
            request,
        } = event
        else {
            return Ok(Some(event));
        };
        let Some(requests) = table.listeners.get(&listener).cloned() else {
            return Ok(Some(Event::Requested {
                connection,
                listener,
                path,
                request,
            }));
        };
        let events = new_events().map_err(|_| connection)?;
        table.add(connection, Arc::clone(&events), Weak::new());
        requests.push(PendingRequest {
            connection,
            path,
            request,
            events,
        });
        Ok(None)
    }
}

impl Table {
    fn add(&mut self, id: ConnectionId, events: Events, qp: Weak<QueuePair>) {
        self.connections.insert(id, Route { events, qp });
    }
}

/// A queue for the events of a connection, which are few.
pub(super) fn new_events() -> io::Result<Events> {
    EventQueue::new(usize::MAX).map(Arc::new)
}

/// A queue for the requests of a listener. The agent's backlog limits their number.
pub(super) fn new_requests() -> io::Result<Requests> {
    EventQueue::new(usize::MAX).map(Arc::new)
}

fn is_last(event: &Event) -> bool {
    matches!(
        event,
        Event::TimeWaitOver { .. } | Event::Rejected { .. } | Event::Unreachable { .. }
    )
}
