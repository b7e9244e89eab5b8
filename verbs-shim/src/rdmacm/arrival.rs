//! Converts the connection manager's events, and puts them into the queue of the ID's channel.
//!
//! This runs in any thread. It does not lock the [`Inner`](super::id::Inner) of an existing ID.

use super::device::{CmDevice, Sink};
use super::id::{EventData, Id, IdParams, PendingEvent, State};
use super::path;
use super::peer::Peer;
use crate::prelude::*;
use roce_verbs::roce_cm::{
    ConnectionId, Event, IpService, ListenerId, Path, PrivateBytes, RejectReason, ServiceType,
};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::atomic::Ordering;

impl Sink for Id {
    fn handle_event(device: &Arc<CmDevice<Self>>, event: Event) {
        handle_event(device, event);
    }
}

/// Handles an event of a device's connection manager.
fn handle_event(device: &Arc<CmDevice<Id>>, event: Event) {
    match event {
        Event::Requested {
            connection,
            listener,
            path,
            request,
        } => IncomingRequest {
            connection,
            listener,
            path,
            ip: request.ip,
            is_xrc: request.service_type == ServiceType::Xrc,
            peer: Peer::of_request(&request),
            data: EventData::Connection((&request).into()),
            private: request.private.into(),
        }
        .handle(device),
        Event::DatagramRequested {
            connection,
            listener,
            path,
            request,
        } => IncomingRequest {
            connection,
            listener,
            path,
            ip: request.ip,
            is_xrc: false,
            peer: Peer::default(),
            data: EventData::Empty,
            private: request.private.into(),
        }
        .handle(device),
        other => {
            // Skip the event if its ID was destroyed meanwhile.
            if let Some(id) = device.connections.find(&other.connection())
                && let Some(pending) = connection_event(device, &id, other)
                && !id.awaits_accept.load(Ordering::Relaxed)
            {
                id.push_event(pending);
            }
        }
    }
}

/// A peer's request for a connection, or for a datagram service.
struct IncomingRequest {
    connection: ConnectionId,
    listener: ListenerId,
    path: Path,
    ip: Option<IpService>,
    is_xrc: bool,
    peer: Peer,
    data: EventData,
    private: Vec<u8>,
}

impl IncomingRequest {
    /// Delivers the request to the listener, or rejects it.
    fn handle(self, device: &Arc<CmDevice<Id>>) {
        let connection = self.connection;
        let listener = device.listeners.find(&self.listener);
        let delivered = listener.map(|listener| self.deliver(device, &listener));
        if !matches!(delivered, Some(Ok(()))) {
            let reason = match delivered {
                Some(Err(Errno::EPROTOTYPE)) => RejectReason::INVALID_TRANSPORT_SERVICE_TYPE,
                _ => RejectReason::NO_RESOURCES,
            };
            // Rejecting is best effort: if it fails, the peer times out.
            let _ = device
                .manager
                .with(|agent, now| agent.reject(now, connection, reason, &[]));
        }
    }

    /// Creates the connection's ID, and queues an event for the listener.
    fn deliver(self, device: &Arc<CmDevice<Id>>, listener: &Arc<Id>) -> Result<(), Errno> {
        let of_listener = listener.c.get();
        if !listener.listens_at(self.path.local) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if self.is_xrc != (of_listener.qp_type == QPT_XRC_RECV) {
            return Err(Errno::EPROTOTYPE);
        }
        let child = Id::new(IdParams {
            channel: listener.channel(),
            sync: false,
            context: of_listener.context,
            space: listener.space,
            qp_type: of_listener.qp_type,
        })?;
        {
            let mut inner = child.inner.lock();
            inner.state = State::RequestReceived;
            inner.device = Some(Arc::clone(device));
            let port = u16::from_be_bytes(of_listener.port());
            inner.local = Some(device.scoped(self.path.local, port)?);
            let port = self.ip.map_or(0, |ip| ip.source_port);
            inner.remote = Some(device.scoped(self.path.remote, port)?);
            inner.connection = Some(self.connection);
            inner.peer = self.peer;
            inner.options.traffic_class = self.peer.traffic_class;
            path::fill_route(&child, &mut inner)?;
        }
        child.awaits_accept.store(true, Ordering::Relaxed);
        device.connections.insert(self.connection, &child);
        let request = PendingEvent {
            child: Some(child),
            data: self.data,
            private: self.private,
            ..PendingEvent::plain(listener, CM_EVENT_CONNECT_REQUEST, 0)
        };
        if listener.push_event(request) {
            return Ok(());
        }
        // The program has destroyed the listener meanwhile.
        device.connections.remove(&self.connection);
        Err(Errno::ECONNREFUSED)
    }
}

impl Id {
    /// Whether the family of `address` is one that the listener listens at: IPv4, IPv6, or both.
    fn listens_at(&self, address: IpAddr) -> bool {
        let [family, ..] = self.c.get().route.addr.src_storage[0].to_ne_bytes();
        let af_only = self.af_only.load(Ordering::Relaxed);
        match address {
            IpAddr::V4(_) => !af_only || i32::from(family) == libc::AF_INET,
            IpAddr::V6(_) => i32::from(family) == libc::AF_INET6,
        }
    }
}

impl RdmaCmId {
    /// The local port in network order, which is at the same offset in both families.
    fn port(&self) -> [u8; 2] {
        let [_, _, a, b, ..] = self.route.addr.src_storage[0].to_ne_bytes();
        [a, b]
    }
}

impl CmDevice<Id> {
    /// A socket address, with the device's interface as its scope if it is link-local.
    fn scoped(&self, address: IpAddr, port: u16) -> Result<SocketAddr, Errno> {
        Ok(match address {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                let index = self.roce()?.device().interface().index;
                SocketAddrV6::new(ip, port, 0, index).into()
            }
            _ => SocketAddr::new(address, port),
        })
    }
}

fn connection_event(device: &CmDevice<Id>, id: &Arc<Id>, event: Event) -> Option<PendingEvent> {
    let with = |event, status: c_int, private: PrivateBytes| PendingEvent {
        private: private.into(),
        ..PendingEvent::plain(id, event, status)
    };
    Some(match event {
        Event::Requested { .. } | Event::DatagramRequested { .. } => return None,
        Event::Replied { reply, .. } => PendingEvent {
            data: EventData::Connection((&reply).into()),
            peer: Some(Peer::of_reply(&reply)),
            ..with(CM_EVENT_CONNECT_RESPONSE, 0, reply.private)
        },
        Event::DatagramReplied {
            qpn, qkey, private, ..
        } => PendingEvent {
            data: EventData::RemoteQp(qpn.get(), qkey.0),
            ..with(CM_EVENT_ESTABLISHED, 0, private)
        },
        Event::Established { private, .. } => with(CM_EVENT_ESTABLISHED, 0, private),
        Event::Rejected {
            reason, private, ..
        } => with(CM_EVENT_REJECTED, reason.0.into(), private),
        Event::DatagramRejected {
            status, private, ..
        } => with(CM_EVENT_UNREACHABLE, status.0.into(), private),
        Event::Unreachable { .. } => {
            let timed_out = -(Errno::ETIMEDOUT as c_int);
            with(CM_EVENT_UNREACHABLE, timed_out, PrivateBytes::default())
        }
        Event::DisconnectRequested { private, .. } | Event::Disconnected { private, .. } => {
            with(CM_EVENT_DISCONNECTED, 0, private)
        }
        Event::TimeWaitOver { connection } => {
            device.connections.remove(&connection);
            with(CM_EVENT_TIMEWAIT_EXIT, 0, PrivateBytes::default())
        }
    })
}
