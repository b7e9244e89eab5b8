//! Events, and what they do to their IDs when the program takes them.

use super::{Channel, Event, EventData, EventKind, Failure, Id, IdError, IdQp, State};
use roce_cm::RejectReason;
use std::sync::Arc;

/// Takes the next event of a channel, which the program must [handle](Event::handle) and acknowledge.
pub fn next_event(channel: &Channel) -> Option<Event> {
    // Counted while the queue is locked: afterwards, the ID could be destroyed.
    channel.poll_then(|event| event.id.unacknowledged().increment())
}

impl Event {
    pub(super) fn new(id: &Arc<Id>, kind: EventKind) -> Self {
        Self {
            id: Arc::clone(id),
            child: None,
            kind,
            failure: None,
            data: EventData::None,
            private: Vec::new(),
            tag: 0,
        }
    }

    /// The event of a step of this end.
    pub(super) fn of(
        id: &Arc<Id>,
        result: Result<(), IdError>,
        good: EventKind,
        bad: EventKind,
    ) -> Self {
        match result {
            Ok(()) => Self::new(id, good),
            Err(error) => Self {
                failure: Some(Failure::Own(error)),
                ..Self::new(id, bad)
            },
        }
    }

    /// Puts the event into the channel of its ID. Returns whether the ID still exists.
    pub fn deliver(self) -> bool {
        Arc::clone(&self.id).push_event(self)
    }

    /// Does what the event means for its ID, and for `qp`, the QP of the ID if it has one. May send a
    /// message to the peer, and change the event.
    pub fn handle(&mut self, qp: Option<&dyn IdQp>) {
        match self.kind {
            EventKind::ConnectRequest => self.handle_request(),
            EventKind::ConnectResponse => self.handle_reply(qp),
            EventKind::Rejected | EventKind::Unreachable => {
                self.id.inner.lock().state = State::Closed;
                if let Some(qp) = qp.filter(|_| !self.id.is_datagram()) {
                    qp.fail();
                }
            }
            EventKind::Established => self.handle_established(),
            _ => {}
        }
    }

    /// A request reaches the program: its place in the backlog is free, and its ID belongs to the channel
    /// of the listener, which may have moved since the request arrived.
    fn handle_request(&self) {
        let Some(child) = &self.child else { return };
        child.move_to(self.id.channel());
        let inner = child.inner.lock();
        // A request that was given up is in no backlog.
        let _ = inner.with_agent(|agent, _, connection| agent.leave_backlog(connection));
    }

    /// Makes the QP ready and sends an RTU. Without a QP, the program does that ([`Id::establish`]).
    fn handle_reply(&mut self, qp: Option<&dyn IdQp>) {
        let id = Arc::clone(&self.id);
        let mut inner = id.inner.lock();
        let (EventData::Reply(reply), Some(_)) = (&self.data, inner.connection) else {
            return;
        };
        inner.negotiated.set_reply(reply);
        let Some(qp) = qp else {
            inner.state = State::ReplyReceived;
            return;
        };
        let parameters = inner.qp_parameters();
        let ready = parameters
            .and_then(|parameters| qp.connect(&parameters))
            .and_then(|()| inner.send_rtu());
        match ready {
            Ok(()) => {
                inner.state = State::Connected;
                self.kind = EventKind::Established;
            }
            Err(error) => {
                inner.state = State::Closed;
                let reason = RejectReason::NO_RESOURCES;
                // An error means that the connection is over anyway.
                let _ = inner.with_agent(|agent, now, id| agent.reject(now, id, reason, &[]));
                self.fail(error);
            }
        }
    }

    /// The connection is established. For a datagram service, adds the path to the event.
    fn handle_established(&mut self) {
        let id = Arc::clone(&self.id);
        let mut inner = id.inner.lock();
        inner.state = State::Connected;
        if let EventData::Datagram { path, .. } = &mut self.data {
            match inner.path_to_peer() {
                Ok(found) => *path = Some(found),
                Err(error) => self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: IdError) {
        self.kind = EventKind::ConnectError;
        self.failure = Some(Failure::Own(error));
    }
}
