//! The negotiated parameters of a connection, from this end's point of view.

use crate::prelude::*;
use roce_verbs::roce_cm::{Reply, Request};

/// The peer's QP, and the negotiated parameters. The depths are those of this end.
#[derive(Clone, Copy, Default)]
pub(super) struct Peer {
    pub(super) qpn: u32,
    /// The PSN that the peer expects first.
    pub(super) psn: u32,
    /// The code of the path MTU.
    pub(super) mtu: u32,
    /// Outstanding READs and atomics that this end accepts.
    pub(super) responder_resources: u8,
    /// Outstanding READs and atomics that this end sends.
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) ack_timeout: u8,
    pub(super) traffic_class: u8,
}

impl Peer {
    /// The parameters in a peer's request.
    pub(super) fn of_request(request: &Request) -> Self {
        Self {
            qpn: request.qpn.get(),
            psn: request.sq_psn.get(),
            mtu: request.path_mtu.code().into(),
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            ack_timeout: request.ack_timeout,
            traffic_class: request.traffic_class,
        }
    }

    /// These parameters, completed with the answer to this end's request.
    pub(super) fn with_reply(self, reply: &Self) -> Self {
        Self {
            qpn: reply.qpn,
            psn: reply.psn,
            responder_resources: reply.responder_resources,
            initiator_depth: reply.initiator_depth,
            rnr_retry_count: reply.rnr_retry_count,
            ..self
        }
    }

    /// The parameters in a peer's reply.
    pub(super) fn of_reply(reply: &Reply) -> Self {
        Self {
            qpn: reply.qpn.get(),
            psn: reply.sq_psn.get(),
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            rnr_retry_count: reply.rnr_retry_count,
            ..Self::default()
        }
    }
}

impl From<&Request> for RdmaConnParam {
    fn from(request: &Request) -> Self {
        Self {
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            flow_control: request.flow_control.into(),
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            srq: request.srq.into(),
            qp_num: request.qpn.get(),
            ..Zero::zeroed()
        }
    }
}

impl From<&Reply> for RdmaConnParam {
    fn from(reply: &Reply) -> Self {
        Self {
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            flow_control: reply.flow_control.into(),
            rnr_retry_count: reply.rnr_retry_count,
            srq: reply.srq.into(),
            qp_num: reply.qpn.get(),
            ..Zero::zeroed()
        }
    }
}
