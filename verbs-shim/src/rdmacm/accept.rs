//! The passive side, which accepts connections; and the end of connections on both sides.

use super::connect::Wanted;
use super::event::{Pending, acknowledge_own, complete, next_request};
use super::id::{Id, Inner, State, find};
use super::resolve::bind;
use super::table::table;
use super::{endpoint, qp};
use crate::abi::*;
use crate::errors::OrErrno;
use crate::guard;
use crate::pointer::{In, Out};
use nix::errno::Errno;
use roce_verbs::qp::{MAX_RD_ATOMIC, QKey};
use roce_verbs::roce_cm::{Acceptance, ConnectionId, DatagramAcceptance, RejectReason};
use roce_verbs::{Psn, Qpn};
use std::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// The default and largest number of waiting requests.
const BACKLOG: usize = 1024;

/// The advertised delay of acknowledgements: 4.096 µs × 2^this.
const ACK_DELAY: u8 = 14;

/// `rdma_listen`. An ID without an address listens at a port of its own, at all addresses.
pub(crate) extern "C" fn listen(id: *mut RdmaCmId, backlog: c_int) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let mut inner = id.inner.lock();
        inner.check(&[State::Idle, State::Bound])?;
        if inner.state == State::Idle {
            bind(
                &id,
                &mut inner,
                SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            )?;
        }
        let backlog = match usize::try_from(backlog) {
            Ok(backlog @ 1..BACKLOG) => backlog,
            _ => BACKLOG,
        };
        serve(&id, &mut inner, backlog)?;
        inner.state = State::Listening;
        Ok(())
    })
}

/// Listens on the device that has the ID's address, or on all usable devices. An ID at a loopback
/// address receives only requests to that address.
fn serve(id: &Arc<Id>, inner: &mut Inner, backlog: usize) -> Result<(), Errno> {
    let devices = match &inner.device {
        Some(device) => vec![Arc::clone(device)],
        None => match inner.local {
            Some(local) if local.ip().is_loopback() => {
                vec![table()?.devices.with_address(local)?]
            }
            _ => table()?.devices.all(),
        },
    };
    let claim = inner.claim.as_ref().ok_or(Errno::EINVAL)?;
    let mut failed = Errno::ENODEV;
    for device in devices {
        let listen = || device.manager.listen(claim, backlog);
        match device.listeners.insert_with(id, listen).or_errno() {
            Ok(listener) => inner.listeners.push((device, listener)),
            Err(errno) => failed = errno,
        }
    }
    if inner.listeners.is_empty() {
        return Err(failed);
    }
    Ok(())
}

/// `rdma_get_request`.
pub(crate) extern "C" fn get_request(listener: *mut RdmaCmId, id: Out<*mut RdmaCmId>) -> c_int {
    guard::minus_one(|| {
        id.get()?;
        let listener = find(listener)?;
        acknowledge_own(&listener)?;
        let request = next_request(&listener)?;
        endpoint::take_over(&listener, &request)?;
        id.put(request.as_ptr())
    })
}

/// The program has received a request: another one may wait in its place.
pub(super) fn requested(event: &Pending) {
    let Some(child) = &event.child else { return };
    let inner = child.inner.lock();
    if let (Some(device), Some(connection)) = (&inner.device, inner.connection) {
        device.manager.with(|agent, _| agent.taken(connection));
    }
}

/// `rdma_accept`.
pub(crate) extern "C" fn accept(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        {
            let mut inner = id.inner.lock();
            inner.check(&[State::Requested])?;
            let connection = inner.connection.ok_or(Errno::EINVAL)?;
            let asked = inner.peer;
            let depths = (
                asked.responder_resources.min(MAX_RD_ATOMIC),
                asked.initiator_depth.min(MAX_RD_ATOMIC),
            );
            let wanted = Wanted::read(&id, &inner, param, depths)?;
            if id.is_datagram {
                accept_datagram(&inner, connection, wanted)?;
                inner.state = State::Connected;
                // No event follows.
                return Ok(());
            }
            accept_connection(&id, &mut inner, connection, wanted)?;
            inner.state = State::Connected;
        }
        complete(&id)
    })
}

fn accept_datagram(inner: &Inner, connection: ConnectionId, wanted: Wanted) -> Result<(), Errno> {
    let acceptance = DatagramAcceptance {
        qpn: usable(wanted.qpn)?,
        qkey: QKey(UDP_QKEY),
        private: wanted.private,
    };
    let manager = &inner.device()?.manager;
    let accepted = manager.with(|agent, now| agent.accept_datagram(now, connection, &acceptance));
    accepted.or_errno()
}

fn accept_connection(
    id: &Id,
    inner: &mut Inner,
    connection: ConnectionId,
    wanted: Wanted,
) -> Result<(), Errno> {
    let qpn = usable(wanted.qpn)?;
    inner.peer.responder_resources = wanted.responder_resources;
    inner.peer.initiator_depth = wanted.initiator_depth;
    inner.rnr_retries_of_peer = Some(wanted.rnr_retry_count);
    if !id.c.get().qp.as_ptr().is_null() {
        qp::to_rts(id, inner)?;
    }
    let acceptance = Acceptance {
        qpn,
        rq_psn: Psn::new(inner.psn),
        responder_resources: wanted.responder_resources,
        initiator_depth: wanted.initiator_depth,
        target_ack_delay: ACK_DELAY,
        flow_control: wanted.flow_control,
        rnr_retry_count: wanted.rnr_retry_count,
        srq: wanted.srq,
        private: wanted.private,
    };
    let manager = &inner.device()?.manager;
    let accepted = manager.with(|agent, now| agent.accept(now, connection, &acceptance));
    accepted.or_errno().inspect_err(|_| {
        let _ = qp::to_error(id);
    })
}

/// Checks that a QP number is one that programs can have.
fn usable(qpn: u32) -> Result<Qpn, Errno> {
    let qpn = Qpn::new(qpn).filter(|qpn| qpn.get() > 1);
    qpn.ok_or(Errno::EINVAL)
}

/// `rdma_reject`.
pub(crate) extern "C" fn reject(id: *mut RdmaCmId, private: In<u8>, len: u8) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let private = private.slice(len.into())?;
        let mut inner = id.inner.lock();
        inner.check(&[State::Requested, State::Replied])?;
        let connection = inner.connection.ok_or(Errno::EINVAL)?;
        let manager = &inner.device()?.manager;
        let reason = RejectReason::CONSUMER;
        let rejected = manager.with(|agent, now| agent.reject(now, connection, reason, private));
        rejected.or_errno()?;
        inner.state = State::Over;
        Ok(())
    })
}

/// `rdma_notify`: reports an event of a connection's QP.
pub(crate) extern "C" fn notify(id: *mut RdmaCmId, event: u32) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let inner = id.inner.lock();
        if event != EVENT_COMM_EST {
            return Err(Errno::EINVAL);
        }
        let connection = inner.connection.ok_or(Errno::EINVAL)?;
        let manager = &inner.device()?.manager;
        manager.with(|agent, now| agent.established(now, connection));
        Ok(())
    })
}

/// `rdma_disconnect`. Sends a request to the peer, or answers the peer's.
pub(crate) extern "C" fn disconnect(id: *mut RdmaCmId) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        {
            let inner = id.inner.lock();
            if id.is_datagram {
                return Err(Errno::EINVAL);
            }
            inner.check(&[State::Connected])?;
            let connection = inner.connection.ok_or(Errno::EINVAL)?;
            let _ = qp::to_error(&id);
            let manager = &inner.device()?.manager;
            let ended = manager.with(|agent, now| agent.disconnect(now, connection, &[]));
            // A synchronous call waits for an event. There will be one only if this call ends a
            // connection, or if the connection has already ended and its event is in the queue.
            if inner.sync && id.channel().is_empty() {
                ended.or_errno()?;
            }
        }
        complete(&id)
    })
}

/// `rdma_destroy_id`. Waits until its events are acknowledged.
pub(crate) extern "C" fn destroy_id(id: *mut RdmaCmId) -> c_int {
    guard::minus_one(|| destroy(id))
}

pub(super) fn destroy(id: *mut RdmaCmId) -> Result<(), Errno> {
    let table = table()?;
    let id = table.ids.remove(id)?;
    end(&id);
    let channel = id.channel();
    for event in channel.withdraw(&id) {
        if let Some(child) = event.child {
            end(&child);
            channel.withdraw(&child);
        }
    }
    acknowledge_own(&id)?;
    if id.inner.lock().sync {
        let _ = table.channels.remove(channel.as_ptr());
    }
    id.unacknowledged.wait_for_all();
    Ok(())
}

/// Detaches the ID from the connection manager, which delivers no more events for it.
fn end(id: &Arc<Id>) {
    let mut inner = id.inner.lock();
    let connection = inner.connection.take();
    if let (Some(device), Some(connection)) = (&inner.device, connection) {
        device
            .manager
            .with(|agent, now| agent.forget(now, connection));
        device.connections.remove(&connection);
    }
    for (device, listener) in std::mem::take(&mut inner.listeners) {
        device.manager.stop_listening(listener);
        device.listeners.remove(&listener);
    }
    inner.claim = None;
    inner.state = State::Over;
}
