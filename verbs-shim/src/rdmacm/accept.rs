//! The passive side, which accepts connections, and the disconnection by either side.

use super::connect::{ConnParams, check_qpn};
use super::event::wait_if_sync;
use super::id::{Id, Inner, State};
use super::qp;
use super::resolve::bind;
use super::table::{find, table};
use crate::errors::is_shortage;
use crate::prelude::*;
use roce_verbs::Psn;
use roce_verbs::qp::{MAX_RD_ATOMIC, QKey};
use roce_verbs::roce_cm::{Acceptance, DatagramAcceptance, RejectReason};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// The default and maximum backlog: the number of requests that wait for the program.
const BACKLOG: usize = 1024;

/// The target ACK delay in a REP: 4.096 µs × 2^`ACK_DELAY`.
const ACK_DELAY: u8 = 14;

/// `rdma_listen`. An ID that is not bound listens at all IPv4 addresses, at a dynamic port.
pub(crate) extern "C" fn listen(id: *mut RdmaCmId, backlog: c_int) -> c_int {
    guard::minus_one("rdma_listen", || {
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
        listen_on_devices(&id, &mut inner, backlog)?;
        inner.state = State::Listening;
        Ok(())
    })
}

/// Listens on the device that has the ID's address, or on all usable devices. An ID at a loopback
/// address receives only requests to that address.
fn listen_on_devices(id: &Arc<Id>, inner: &mut Inner, backlog: usize) -> Result<(), Errno> {
    let devices = match &inner.device {
        Some(device) => vec![Arc::clone(device)],
        None => match inner.local {
            Some(local) if local.ip().is_loopback() => {
                vec![table()?.devices.with_address(local)?]
            }
            _ => table()?.devices.all()?,
        },
    };
    let claim = inner.claim.as_ref().ok_or(Errno::EINVAL)?;
    let mut failed = Errno::ENODEV;
    for device in devices {
        let listen = || device.manager.listen(claim, backlog);
        match device.listeners.insert_with(id, listen).or_errno() {
            Ok(listener) => inner.listeners.push((device, listener)),
            Err(errno) if is_shortage(errno) => {
                inner.stop_listening();
                return Err(errno);
            }
            Err(errno) => failed = errno,
        }
    }
    if inner.listeners.is_empty() {
        return Err(failed);
    }
    Ok(())
}

pub(crate) extern "C" fn accept(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one("rdma_accept", || {
        let id = find(id)?;
        {
            let mut inner = id.inner.lock();
            inner.check(&[State::RequestReceived])?;
            let peer = inner.peer;
            let depths = (
                peer.responder_resources.min(MAX_RD_ATOMIC),
                peer.initiator_depth.min(MAX_RD_ATOMIC),
            );
            let params = ConnParams::read(&id, &inner, param, depths)?;
            id.awaits_accept.store(false, Ordering::Relaxed);
            if id.is_datagram {
                accept_datagram(&inner, params)?;
                inner.state = State::Connected;
                // No event follows.
                return Ok(());
            }
            accept_connection(&id, &mut inner, params)?;
            inner.state = State::Connected;
        }
        wait_if_sync(&id)
    })
}

fn accept_datagram(inner: &Inner, params: ConnParams) -> Result<(), Errno> {
    let acceptance = DatagramAcceptance {
        qpn: check_qpn(params.qpn)?,
        qkey: QKey(UDP_QKEY),
        private: params.private,
    };
    let accepted = inner
        .with_agent(|agent, now, connection| agent.accept_datagram(now, connection, &acceptance));
    accepted?.or_errno()
}

fn accept_connection(id: &Id, inner: &mut Inner, params: ConnParams) -> Result<(), Errno> {
    let qpn = check_qpn(params.qpn)?;
    inner.peer.responder_resources = params.responder_resources;
    inner.peer.initiator_depth = params.initiator_depth;
    inner.peer_rnr_retry_count = Some(params.rnr_retry_count);
    if !id.c.get().qp.as_ptr().is_null() {
        qp::to_rts(id, inner)?;
    }
    let acceptance = Acceptance {
        qpn,
        rq_psn: Psn::new(inner.psn),
        responder_resources: params.responder_resources,
        initiator_depth: params.initiator_depth,
        target_ack_delay: ACK_DELAY,
        flow_control: params.flow_control,
        rnr_retry_count: params.rnr_retry_count,
        srq: params.srq,
        private: params.private,
    };
    let accepted =
        inner.with_agent(|agent, now, connection| agent.accept(now, connection, &acceptance));
    accepted?.or_errno().inspect_err(|_| {
        let _ = qp::to_error(id);
    })
}

pub(crate) extern "C" fn reject(id: *mut RdmaCmId, private: In<u8>, len: u8) -> c_int {
    guard::minus_one("rdma_reject", || {
        let id = find(id)?;
        let private = private.slice(len.into())?;
        let mut inner = id.inner.lock();
        inner.check(&[State::RequestReceived, State::ReplyReceived])?;
        let reason = RejectReason::CONSUMER;
        let rejected = inner
            .with_agent(|agent, now, connection| agent.reject(now, connection, reason, private));
        rejected?.or_errno()?;
        inner.state = State::Closed;
        Ok(())
    })
}

/// `rdma_notify`: the program reports `IBV_EVENT_COMM_EST` of the connection's QP.
pub(crate) extern "C" fn notify(id: *mut RdmaCmId, event: u32) -> c_int {
    guard::minus_one("rdma_notify", || {
        let id = find(id)?;
        let inner = id.inner.lock();
        if event != EVENT_COMM_EST {
            return Err(Errno::EINVAL);
        }
        inner.with_agent(|agent, now, connection| agent.established(now, connection))
    })
}

/// `rdma_disconnect`. Sends a DREQ, or a DREP if the peer has sent a DREQ.
pub(crate) extern "C" fn disconnect(id: *mut RdmaCmId) -> c_int {
    guard::minus_one("rdma_disconnect", || {
        let id = find(id)?;
        {
            let inner = id.inner.lock();
            if id.is_datagram {
                return Err(Errno::EINVAL);
            }
            inner.check(&[State::Connected])?;
            let _ = qp::to_error(&id);
            let ended = inner
                .with_agent(|agent, now, connection| agent.disconnect(now, connection, &[]))?;
            // A synchronous call waits for an event. One arrives only if this call ends the
            // connection, or if the connection has already ended and its event is in the queue.
            if inner.sync && id.channel().is_empty() {
                ended.or_errno()?;
            }
        }
        wait_if_sync(&id)
    })
}
