//! The active side, which requests connections, and resolves datagram services to QPs.

use super::event::wait_if_sync;
use super::id::{Id, Inner, State};
use super::peer::Peer;
use super::table::find;
use super::{attributes, path};
use crate::prelude::*;
use roce_verbs::qp::MAX_RD_ATOMIC;
use roce_verbs::roce_cm::{
    CmError, ConnectRequest, ConnectionId, DatagramRequest, PKey, Path, ServiceId, ServiceType,
};
use roce_verbs::{Psn, QpKind, Qpn};

/// The default of `retry_count` and `rnr_retry_count`.
const DEFAULT_RETRY_COUNT: u8 = 7;

/// The default local ACK timeout: 4.096 µs × 2^`DEFAULT_ACK_TIMEOUT`.
const DEFAULT_ACK_TIMEOUT: u8 = 14;

/// The connection parameters: those of the program, and those that its ID determines.
pub(super) struct ConnParams {
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

impl ConnParams {
    /// Reads the parameters. `max_depths` are the defaults for the outstanding READs and atomics
    /// that this end accepts and sends.
    ///
    /// # Errors
    /// `EINVAL` if the program requests more than the device supports.
    pub(super) fn read(
        id: &Id,
        inner: &Inner,
        param: In<RdmaConnParam>,
        max_depths: (u8, u8),
    ) -> Result<Self, Errno> {
        let c = id.c.get();
        let param = if param.is_null() {
            None
        } else {
            Some(*param.get()?)
        };
        let c_param = param.unwrap_or(RdmaConnParam {
            responder_resources: u8::MAX,
            initiator_depth: u8::MAX,
            retry_count: DEFAULT_RETRY_COUNT,
            rnr_retry_count: DEFAULT_RETRY_COUNT,
            ..Zero::zeroed()
        });
        let (qpn, srq) = match c.qp.opt()? {
            Some(qp) => (qp.number(), !c.srq.as_ptr().is_null() || qp.has_srq()),
            None => (c_param.qp_num, c_param.srq != 0),
        };
        let given = c_param
            .private_data
            .slice(c_param.private_data_len.into())?;
        let private = match param {
            Some(_) => given.to_vec(),
            None => inner.private.clone(),
        };
        Ok(Self {
            qpn,
            srq,
            service_type: match attributes::kind(&c)? {
                QpKind::Uc => ServiceType::Uc,
                QpKind::XrcInitiator | QpKind::XrcTarget => ServiceType::Xrc,
                _ => ServiceType::Rc,
            },
            responder_resources: depth(c_param.responder_resources, max_depths.0)?,
            initiator_depth: depth(c_param.initiator_depth, max_depths.1)?,
            flow_control: c_param.flow_control != 0,
            retry_count: c_param.retry_count.min(7),
            rnr_retry_count: c_param.rnr_retry_count.min(7),
            private,
        })
    }
}

/// The number of outstanding READs and atomics. 255 means `max`.
fn depth(requested: u8, max: u8) -> Result<u8, Errno> {
    match requested {
        u8::MAX => Ok(max),
        requested if requested <= MAX_RD_ATOMIC => Ok(requested),
        _ => Err(with_reason(Errno::EINVAL, || {
            format!(
                "responder_resources or initiator_depth is {requested}, but must be at most \
                 {MAX_RD_ATOMIC}, or 255 for the most"
            )
        })),
    }
}

pub(crate) extern "C" fn connect(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one("rdma_connect", || {
        let id = find(id)?;
        {
            let mut inner = id.inner.lock();
            inner.check(&[State::RouteResolved])?;
            let max = (MAX_RD_ATOMIC, MAX_RD_ATOMIC);
            let params = ConnParams::read(&id, &inner, param, max)?;
            send_request(&id, &mut inner, params)?;
        }
        wait_if_sync(&id)
    })
}

fn send_request(id: &Arc<Id>, inner: &mut Inner, params: ConnParams) -> Result<(), Errno> {
    let device = Arc::clone(inner.device()?);
    let (local, remote) = inner.ends()?;
    let path = Path {
        local: local.ip(),
        remote: remote.ip(),
    };
    let service = ServiceId::ip(id.space, remote.port());
    // The connection's events find its ID.
    let own = |connection| {
        device.connections.insert(connection, id);
        connection
    };
    let asked: Result<ConnectionId, CmError> = if id.is_datagram {
        let request = DatagramRequest {
            service,
            source_port: local.port(),
            pkey: PKey::DEFAULT,
            private: params.private,
        };
        device
            .manager
            .with(|agent, now| agent.resolve_datagram(now, path, &request).map(own))
    } else {
        let request = request(inner, service, local.port(), params)?;
        inner.peer = Peer {
            mtu: request.path_mtu.code().into(),
            responder_resources: request.responder_resources,
            initiator_depth: request.initiator_depth,
            retry_count: request.retry_count,
            ack_timeout: request.ack_timeout,
            traffic_class: request.traffic_class,
            ..Peer::default()
        };
        inner.peer_rnr_retry_count = Some(request.rnr_retry_count);
        device
            .manager
            .with(|agent, now| agent.connect(now, path, &request).map(own))
    };
    inner.connection = Some(asked.or_errno()?);
    inner.state = State::Connecting;
    Ok(())
}

/// Checks that a QP number is one that a program's QP can have.
pub(super) fn check_qpn(qpn: u32) -> Result<Qpn, Errno> {
    let found = Qpn::new(qpn).filter(|qpn| qpn.get() > 1);
    found.ok_or_else(|| {
        with_reason(Errno::EINVAL, || {
            format!(
                "qp_num is {qpn:#x}, but must be the number of a QP: create one by rdma_create_qp, or \
                 set rdma_conn_param.qp_num"
            )
        })
    })
}

fn request(
    inner: &Inner,
    service: ServiceId,
    source_port: u16,
    params: ConnParams,
) -> Result<ConnectRequest, Errno> {
    Ok(ConnectRequest {
        service,
        source_port,
        service_type: params.service_type,
        qpn: check_qpn(params.qpn)?,
        rq_psn: Psn::new(inner.psn),
        responder_resources: params.responder_resources,
        initiator_depth: params.initiator_depth,
        retry_count: params.retry_count,
        rnr_retry_count: params.rnr_retry_count,
        flow_control: params.flow_control,
        srq: params.srq,
        pkey: PKey::DEFAULT,
        path_mtu: path::mtu(inner)?,
        traffic_class: inner.options.traffic_class,
        hop_limit: path::HOP_LIMIT,
        flow_label: 0,
        ack_timeout: inner.options.ack_timeout.unwrap_or(DEFAULT_ACK_TIMEOUT),
        private: params.private,
    })
}

/// `rdma_establish`: sends an RTU, after the program has brought its QP to RTS.
pub(crate) extern "C" fn establish(id: *mut RdmaCmId) -> c_int {
    guard::minus_one("rdma_establish", || {
        let id = find(id)?;
        let mut inner = id.inner.lock();
        inner.check(&[State::ReplyReceived])?;
        inner.send_rtu()?;
        inner.state = State::Connected;
        Ok(())
    })
}
