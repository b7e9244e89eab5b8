//! The active side, which requests connections and the QPs of datagram services.

use super::event::{Datagram, Pending, Says, complete};
use super::id::{Id, Inner, State, find};
use super::peer::Peer;
use super::{path, qp};
use crate::abi::*;
use crate::errors::OrErrno;
use crate::guard;
use crate::pointer::In;
use nix::errno::Errno;
use roce_verbs::qp::MAX_RD_ATOMIC;
use roce_verbs::roce_cm::{
    CmError, ConnectRequest, ConnectionId, DatagramRequest, PKey, Path, RejectReason, ServiceId,
    ServiceType,
};
use roce_verbs::{Psn, QpKind, Qpn};
use std::ffi::c_int;
use std::sync::Arc;

/// The default retry count.
const RETRIES: u8 = 7;

/// The default local ACK timeout: 4.096 µs × 2^this.
const ACK_TIMEOUT: u8 = 14;

/// The program's parameters, with those of its ID.
pub(super) struct Wanted {
    pub(super) qpn: u32,
    pub(super) srq: bool,
    pub(super) service_type: ServiceType,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: bool,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) private: Vec<u8>,
}

impl Wanted {
    /// Reads the parameters. `depths` are the defaults for the outstanding READs and atomics that
    /// this end accepts and sends.
    ///
    /// # Errors
    /// `EINVAL` if the program requests more than the device supports.
    pub(super) fn read(
        id: &Id,
        inner: &Inner,
        param: In<RdmaConnParam>,
        depths: (u8, u8),
    ) -> Result<Self, Errno> {
        let c = id.c.get();
        let param = if param.is_null() {
            None
        } else {
            Some(*param.get()?)
        };
        let said = param.unwrap_or(RdmaConnParam {
            responder_resources: u8::MAX,
            initiator_depth: u8::MAX,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            ..RdmaConnParam::none()
        });
        let (qpn, srq) = match c.qp.opt()? {
            Some(qp) => (qp.number(), !c.srq.as_ptr().is_null() || qp.has_srq()),
            None => (said.qp_num, said.srq != 0),
        };
        let given = said.private_data.slice(said.private_data_len.into())?;
        let private = match param {
            Some(_) => given.to_vec(),
            None => inner.private.clone(),
        };
        Ok(Self {
            qpn,
            srq,
            service_type: match qp::kind(&c)? {
                QpKind::Uc => ServiceType::Uc,
                QpKind::XrcInitiator | QpKind::XrcTarget => ServiceType::Xrc,
                _ => ServiceType::Rc,
            },
            responder_resources: depth(said.responder_resources, depths.0)?,
            initiator_depth: depth(said.initiator_depth, depths.1)?,
            flow_control: said.flow_control != 0,
            retry_count: said.retry_count.min(7),
            rnr_retry_count: said.rnr_retry_count.min(7),
            private,
        })
    }
}

/// The number of outstanding READs and atomics: 255 means the maximum.
fn depth(said: u8, most: u8) -> Result<u8, Errno> {
    match said {
        u8::MAX => Ok(most),
        said if said <= MAX_RD_ATOMIC => Ok(said),
        _ => Err(Errno::EINVAL),
    }
}

/// `rdma_connect`.
pub(crate) extern "C" fn connect(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        {
            let mut inner = id.inner.lock();
            inner.check(&[State::Routed])?;
            let most = (MAX_RD_ATOMIC, MAX_RD_ATOMIC);
            let wanted = Wanted::read(&id, &inner, param, most)?;
            ask(&id, &mut inner, wanted)?;
        }
        complete(&id)
    })
}

fn ask(id: &Arc<Id>, inner: &mut Inner, wanted: Wanted) -> Result<(), Errno> {
    let device = Arc::clone(inner.device()?);
    let (local, remote) = inner.ends()?;
    let path = Path {
        local: local.ip(),
        remote: remote.ip(),
    };
    let service = ServiceId::ip(id.space, remote.port());
    let asked: Result<ConnectionId, CmError> = if id.is_datagram {
        let request = DatagramRequest {
            service,
            source_port: local.port(),
            pkey: PKey::DEFAULT,
            private: wanted.private,
        };
        device.manager.with(|agent, now| {
            let connection = agent.resolve_datagram(now, path, &request)?;
            device.connections.insert(connection, id);
            Ok(connection)
        })
    } else {
        let request = request(inner, service, local.port(), wanted)?;
        inner.peer = Peer {
            mtu: request.path_mtu.code().into(),
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            retry_count: request.retry_count,
            ack_timeout: request.ack_timeout,
            traffic_class: request.traffic_class,
            ..Peer::default()
        };
        inner.rnr_retries_of_peer = Some(request.rnr_retry_count);
        device.manager.with(|agent, now| {
            let connection = agent.connect(now, path, &request)?;
            device.connections.insert(connection, id);
            Ok(connection)
        })
    };
    inner.connection = Some(asked.or_errno()?);
    inner.state = State::Connecting;
    Ok(())
}

fn request(
    inner: &Inner,
    service: ServiceId,
    source_port: u16,
    wanted: Wanted,
) -> Result<ConnectRequest, Errno> {
    Ok(ConnectRequest {
        service,
        source_port,
        service_type: wanted.service_type,
        qpn: Qpn::new(wanted.qpn)
            .filter(|qpn| qpn.get() > 1)
            .ok_or(Errno::EINVAL)?,
        rq_psn: Psn::new(inner.psn),
        responder_resources: wanted.responder_resources,
        initiator_depth: wanted.initiator_depth,
        retry_count: wanted.retry_count,
        rnr_retry_count: wanted.rnr_retry_count,
        flow_control: wanted.flow_control,
        srq: wanted.srq,
        pkey: PKey::DEFAULT,
        path_mtu: path::mtu(inner)?,
        traffic_class: inner.options.traffic_class,
        hop_limit: path::HOP_LIMIT,
        flow_label: 0,
        ack_timeout: inner.options.ack_timeout.unwrap_or(ACK_TIMEOUT),
        private: wanted.private,
    })
}

/// The peer has accepted. If the ID has a QP, makes it ready and establishes the connection;
/// otherwise that is up to the program.
pub(super) fn replied(event: &mut Pending) {
    let id = Arc::clone(&event.about);
    let mut inner = id.inner.lock();
    let (Some(reply), Some(connection)) = (event.peer, inner.connection) else {
        return;
    };
    inner.peer = inner.peer.answered(&reply);
    if id.c.get().qp.as_ptr().is_null() {
        inner.state = State::Replied;
        return;
    }
    let ready = qp::to_rts(&id, &inner).and_then(|()| say_ready(&inner, connection));
    match ready {
        Ok(()) => {
            inner.state = State::Connected;
            event.event = CM_EVENT_ESTABLISHED;
        }
        Err(errno) => {
            inner.state = State::Over;
            refuse(&inner, connection);
            event.event = CM_EVENT_CONNECT_ERROR;
            event.status = -(errno as c_int);
        }
    }
}

fn say_ready(inner: &Inner, connection: ConnectionId) -> Result<(), Errno> {
    let manager = &inner.device()?.manager;
    let said = manager.with(|agent, now| agent.ready(now, connection, &[]));
    said.or_errno()
}

/// Tells the peer that the connection failed. If the peer already knows, nothing is left to do.
fn refuse(inner: &Inner, connection: ConnectionId) {
    if let Ok(device) = inner.device() {
        let reason = RejectReason::NO_RESOURCES;
        let _ = device
            .manager
            .with(|agent, now| agent.reject(now, connection, reason, &[]));
    }
}

/// For a datagram service, adds the path to the event.
pub(super) fn established(event: &mut Pending) {
    let id = Arc::clone(&event.about);
    let mut inner = id.inner.lock();
    inner.state = State::Connected;
    let Says::Found(qpn, qkey) = event.says else {
        return;
    };
    match path::to_peer(&inner) {
        Ok(path) => {
            event.says = Says::Datagram(Datagram {
                path,
                qpn,
                qkey,
                context: 0,
            });
        }
        Err(errno) => {
            event.event = CM_EVENT_CONNECT_ERROR;
            event.status = -(errno as c_int);
        }
    }
}

/// The connection failed: flushes the QP's posted requests.
pub(super) fn refused(event: &Pending) {
    let id = &event.about;
    id.inner.lock().state = State::Over;
    if !id.is_datagram {
        // The QP may be gone, or in a state in which this is neither possible nor needed.
        let _ = qp::to_error(id);
    }
}

/// `rdma_establish`: the program has made its QP ready.
pub(crate) extern "C" fn establish(id: *mut RdmaCmId) -> c_int {
    guard::minus_one(|| {
        let id = find(id)?;
        let mut inner = id.inner.lock();
        inner.check(&[State::Replied])?;
        let connection = inner.connection.ok_or(Errno::EINVAL)?;
        say_ready(&inner, connection)?;
        inner.state = State::Connected;
        Ok(())
    })
}
