//! The connection manager's events, which become those of IDs.
//!
//! This runs in the manager's thread, which holds no lock.

use super::{Event, EventData, EventKind, Failure, Id, IdDevice, State};
use roce_cm::{
    ConnectionId, Event as CmEvent, IpService, ListenerId, Path, PrivateBytes, RejectReason,
    Request, ServiceType,
};
use roce_stack::QpKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl IdDevice {
    /// Handles an event of the device's connection manager.
    pub(super) fn handle_event(self: &Arc<Self>, event: CmEvent) {
        match event {
            CmEvent::Requested {
                connection,
                listener,
                path,
                request,
            } => self.handle_request(Incoming {
                connection,
                listener,
                path,
                ip: request.ip,
                private: request.private.clone().into(),
                request: Some(Box::new(request)),
            }),
            CmEvent::DatagramRequested {
                connection,
                listener,
                path,
                request,
            } => self.handle_request(Incoming {
                connection,
                listener,
                path,
                ip: request.ip,
                private: request.private.into(),
                request: None,
            }),
            other => {
                let connection = other.connection();
                // Skip the event if its ID was destroyed meanwhile.
                let Some(id) = self.connections.find(&connection) else {
                    return;
                };
                if let CmEvent::TimeWaitOver { .. } = other {
                    self.connections.remove(&connection);
                }
                if let Some(event) = id.event(other)
                    && !id.awaits_accept.load(Ordering::Relaxed)
                {
                    id.push_event(event);
                }
            }
        }
    }

    /// Delivers a request to the listener, or rejects it.
    fn handle_request(self: &Arc<Self>, incoming: Incoming) {
        let connection = incoming.connection;
        let listener = self.listeners.find(&incoming.listener);
        let refused = match listener {
            Some(listener) => self.deliver(incoming, &listener).err(),
            None => Some(RejectReason::NO_RESOURCES),
        };
        if let Some(reason) = refused {
            // Rejecting is best effort: if it fails, the peer times out.
            let _ = self
                .manager
                .with(|agent, now| agent.reject(now, connection, reason, &[]));
        }
    }

    /// Creates the connection's ID, and queues an event for the listener.
    fn deliver(
        self: &Arc<Self>,
        incoming: Incoming,
        listener: &Arc<Id>,
    ) -> Result<(), RejectReason> {
        let own = listener.addresses().0;
        let Some(own) = own.filter(|own| listener.listens_at(own, incoming.path)) else {
            return Err(RejectReason::NO_RESOURCES);
        };
        let is_xrc = |request: &Request| request.service_type == ServiceType::Xrc;
        if incoming.request.as_deref().is_some_and(is_xrc) != (listener.kind == QpKind::XrcTarget) {
            return Err(RejectReason::INVALID_TRANSPORT_SERVICE_TYPE);
        }
        let child = Id::new(listener.channel(), listener.space, listener.kind);
        let child = child.map_err(|_| RejectReason::NO_RESOURCES)?;
        {
            let mut inner = child.inner.lock();
            inner.state = State::RequestReceived;
            inner.device = Some(Arc::clone(self));
            inner.local = Some(self.scoped(incoming.path.local, own.port()));
            let port = incoming.ip.map_or(0, |ip| ip.source_port);
            inner.remote = Some(self.scoped(incoming.path.remote, port));
            inner.connection = Some(incoming.connection);
            if let Some(request) = &incoming.request {
                inner.negotiated.set_request(request);
            }
        }
        child.awaits_accept.store(true, Ordering::Relaxed);
        self.connections.insert(incoming.connection, &child);
        let event = Event {
            child: Some(child),
            data: incoming.request.map_or(EventData::None, EventData::Request),
            private: incoming.private,
            ..Event::new(listener, EventKind::ConnectRequest)
        };
        if !listener.push_event(event) {
            // The program has destroyed the listener meanwhile.
            self.connections.remove(&incoming.connection);
            return Err(RejectReason::NO_RESOURCES);
        }
        Ok(())
    }
}

/// A peer's request for a connection, or for a datagram service.
struct Incoming {
    connection: ConnectionId,
    listener: ListenerId,
    path: Path,
    ip: Option<IpService>,
    private: Vec<u8>,
    /// `None` for a datagram service.
    request: Option<Box<Request>>,
}

impl Id {
    /// Whether the listener at `own` listens at the local address of `path`: at IPv4, IPv6, or both.
    fn listens_at(&self, own: &SocketAddr, path: Path) -> bool {
        match path.local.is_ipv4() {
            true => own.is_ipv4() || !self.is_v6_only.load(Ordering::Relaxed),
            false => own.is_ipv6(),
        }
    }

    fn event(self: &Arc<Self>, event: CmEvent) -> Option<Event> {
        let with = |kind, private: PrivateBytes| Event {
            private: private.into(),
            ..Event::new(self, kind)
        };
        let failed = |kind, failure, private| Event {
            failure: Some(failure),
            ..with(kind, private)
        };
        Some(match event {
            CmEvent::Requested { .. } | CmEvent::DatagramRequested { .. } => return None,
            CmEvent::Replied { reply, .. } => Event {
                private: reply.private.clone().into(),
                data: EventData::Reply(Box::new(reply)),
                ..Event::new(self, EventKind::ConnectResponse)
            },
            CmEvent::DatagramReplied {
                qpn, qkey, private, ..
            } => Event {
                data: EventData::Datagram {
                    path: None,
                    qpn,
                    qkey,
                },
                ..with(EventKind::Established, private)
            },
            CmEvent::Established { private, .. } => with(EventKind::Established, private),
            CmEvent::Rejected {
                reason, private, ..
            } => failed(EventKind::Rejected, Failure::Peer(reason.0), private),
            CmEvent::DatagramRejected {
                status, private, ..
            } => failed(
                EventKind::Unreachable,
                Failure::Peer(status.0.into()),
                private,
            ),
            CmEvent::Unreachable { .. } => failed(
                EventKind::Unreachable,
                Failure::NoAnswer,
                PrivateBytes::default(),
            ),
            CmEvent::DisconnectRequested { private, .. }
            | CmEvent::Disconnected { private, .. } => with(EventKind::Disconnected, private),
            CmEvent::TimeWaitOver { .. } => Event::new(self, EventKind::TimewaitExit),
        })
    }
}
