//! The parameters that two ends have negotiated, and their effect on an ID's QP.

use super::{Id, IdError, Inner, State};
use crate::device::{Context, Gid};
use crate::qp::{ConnectOptions, Endpoint, QueuePair, RnrTimer};
use roce_cm::{ConnectRequest, Reply, Request};
use roce_stack::{Access, QpAttributes, QpState};
use roce_wire::{PathMtu, Psn, Qpn};
use std::net::IpAddr;

/// The hop limit of connections.
pub const HOP_LIMIT: u8 = 64;

/// The code of the RNR timer for a peer that retries without limit: 0.64 ms.
const SHORT_RNR_TIMER: u8 = 12;

/// The RNR retry count that means no limit.
const NO_LIMIT: u8 = 7;

/// The peer's QP, and the options of this end's.
#[derive(Debug)]
pub(super) struct Negotiated {
    /// The peer's QP and the PSN that it expects first; `None` until the peer has named them.
    remote: Option<(Qpn, Psn)>,
    pub(super) options: ConnectOptions,
}

impl Default for Negotiated {
    fn default() -> Self {
        Self {
            remote: None,
            options: ConnectOptions {
                max_rd_atomic: 0,
                max_dest_rd_atomic: 0,
                min_rnr_timer: RnrTimer::LONGEST,
                traffic_class: 0,
                hop_limit: HOP_LIMIT,
                ..ConnectOptions::default()
            },
        }
    }
}

impl Negotiated {
    /// Takes over a peer's request.
    pub(super) fn set_request(&mut self, request: &Request) {
        self.remote = Some((request.qpn, request.sq_psn));
        self.options = ConnectOptions {
            path_mtu: Some(request.path_mtu),
            max_dest_rd_atomic: request.initiator_depth,
            max_rd_atomic: request.responder_resources,
            retry_cnt: request.retry_count,
            rnr_retry: request.rnr_retry_count,
            timeout: request.ack_timeout,
            traffic_class: request.traffic_class,
            ..self.options
        };
    }

    /// Takes over this end's request.
    pub(super) fn set_own_request(&mut self, request: &ConnectRequest) {
        self.options = ConnectOptions {
            path_mtu: Some(request.path_mtu),
            max_dest_rd_atomic: request.responder_resources,
            max_rd_atomic: request.initiator_depth,
            retry_cnt: request.retry_count,
            timeout: request.ack_timeout,
            min_rnr_timer: rnr_timer(request.rnr_retry_count),
            ..self.options
        };
    }

    /// Takes over the answer to this end's request.
    pub(super) fn set_reply(&mut self, reply: &Reply) {
        self.remote = Some((reply.qpn, reply.sq_psn));
        self.options.max_dest_rd_atomic = reply.initiator_depth;
        self.options.max_rd_atomic = reply.responder_resources;
        self.options.rnr_retry = reply.rnr_retry_count;
    }

    /// READs, atomics and FLUSHes are allowed unless this end accepts none.
    fn access(&self) -> Access {
        let write = Access::REMOTE_WRITE;
        let flushes = Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
        match self.options.max_dest_rd_atomic {
            0 => write,
            _ => write | Access::REMOTE_READ | Access::REMOTE_ATOMIC | flushes,
        }
    }
}

/// A path from an ID to its peer or to a group.
#[derive(Clone, Copy, Debug)]
pub struct IdPath {
    /// The index of the ID's address in the GID table.
    pub gid_index: u8,
    /// The destination.
    pub to: Gid,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
}

/// How a QP is connected.
#[derive(Clone, Copy, Debug)]
pub struct QpParameters {
    /// The index of this end's address in the GID table.
    pub gid_index: u8,
    /// The peer's QP. Its PSN is the first that this end expects.
    pub remote: Endpoint,
    /// The first PSN that this end sends.
    pub sq_psn: Psn,
    /// The other attributes; the path MTU is set.
    pub options: ConnectOptions,
}

/// The QP of an ID, as far as connections change it.
pub trait IdQp {
    /// Moves the QP from INIT to RTS.
    ///
    /// # Errors
    /// If the program has moved it to another state, or the NIC refuses.
    fn connect(&self, parameters: &QpParameters) -> Result<(), IdError>;

    /// Moves the QP to ERR, which flushes its requests. It may be in a state in which that is not
    /// possible.
    fn fail(&self);
}

impl IdQp for QueuePair {
    fn connect(&self, parameters: &QpParameters) -> Result<(), IdError> {
        let options = ConnectOptions {
            // ECN-capable: switches may mark packets instead of dropping them.
            traffic_class: parameters.options.traffic_class & !0b11 | 0b10,
            ..parameters.options
        };
        self.to_init(options.access)?;
        self.to_rtr(parameters.gid_index, &parameters.remote, &options)?;
        Ok(self.to_rts_from(parameters.sq_psn, &options)?)
    }

    fn fail(&self) {
        let _ = self.modify(&QpAttributes {
            state: Some(QpState::Err),
            ..QpAttributes::default()
        });
    }
}

impl Id {
    /// The rights of the peer, for a QP in INIT.
    pub fn qp_access(&self) -> Access {
        self.inner.lock().negotiated.access()
    }

    /// The first PSN of a datagram QP.
    pub fn psn(&self) -> Psn {
        Psn::new(self.inner.lock().psn)
    }

    /// The attributes of its QP in RTR and RTS.
    ///
    /// # Errors
    /// If the peer has not named its QP yet, or the device has lost its address.
    pub fn qp_parameters(&self) -> Result<QpParameters, IdError> {
        self.inner.lock().qp_parameters()
    }

    /// The path MTU that its device carries.
    ///
    /// # Errors
    /// If it has no device yet.
    pub fn path_mtu(&self) -> Result<PathMtu, IdError> {
        self.inner.lock().path_mtu()
    }

    /// The traffic class of its packets.
    pub fn traffic_class(&self) -> u8 {
        self.inner.lock().negotiated.options.traffic_class
    }
}

impl Inner {
    pub(super) fn qp_parameters(&self) -> Result<QpParameters, IdError> {
        self.check(&[
            State::RequestReceived,
            State::Connecting,
            State::ReplyReceived,
            State::Connected,
        ])?;
        let Some((qpn, sq_psn)) = self.negotiated.remote else {
            return IdError::invalid("the peer has not answered yet".to_owned());
        };
        let path = self.path_to_peer()?;
        let options = self.negotiated.options;
        Ok(QpParameters {
            gid_index: path.gid_index,
            remote: Endpoint {
                gid: path.to,
                qpn,
                // Each side chooses the PSN that its peer starts with.
                // rule: 12.6.5-starting-psn
                psn: Psn::new(self.psn),
            },
            sq_psn,
            options: ConnectOptions {
                access: self.negotiated.access(),
                timeout: self.ack_timeout.unwrap_or(options.timeout),
                ..options
            },
        })
    }

    /// The largest path MTU whose packets the interface carries.
    pub(super) fn path_mtu(&self) -> Result<PathMtu, IdError> {
        Ok(self.device()?.context().device().active_mtu())
    }

    pub(super) fn path_to_peer(&self) -> Result<IdPath, IdError> {
        let (local, remote) = self.ends()?;
        self.path(local.ip(), remote.ip(), HOP_LIMIT)
    }

    pub(super) fn path(&self, from: IpAddr, to: IpAddr, hop_limit: u8) -> Result<IdPath, IdError> {
        let context: &Context = self.device()?.context();
        Ok(IdPath {
            gid_index: context.gid_index(from)?,
            to: to.into(),
            traffic_class: self.negotiated.options.traffic_class,
            hop_limit,
        })
    }
}

/// The RNR timer for a peer with this RNR retry count. Linux uses the longest time for
/// all peers, and programs choose their retry counts for it: with a short time, five retries are over
/// before a busy machine schedules the thread that is about to post a receive.
pub(super) fn rnr_timer(retries: u8) -> RnrTimer {
    match retries {
        NO_LIMIT => RnrTimer::from_code(SHORT_RNR_TIMER).unwrap_or(RnrTimer::LONGEST),
        _ => RnrTimer::LONGEST,
    }
}
