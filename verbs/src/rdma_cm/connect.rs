//! The active side, which requests connections and the QPs of datagram services.

use super::{HOP_LIMIT, Id, IdError, Inner, State};
use roce_cm::{ConnectRequest, DatagramRequest, PKey, Path, ServiceId, ServiceType};
use roce_stack::MAX_RD_ATOMIC;
use roce_wire::{Psn, Qpn};
use std::sync::Arc;

/// The default local ACK timeout: 4.096 µs × 2^`DEFAULT_ACK_TIMEOUT`.
const DEFAULT_ACK_TIMEOUT: u8 = 14;

/// The depth that means the most.
const MOST: u8 = u8::MAX;

/// A program's parameters of a connection (`rdma_conn_param`).
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// The QP's number.
    pub qpn: u32,
    /// Whether the QP uses an SRQ.
    pub srq: bool,
    /// The type of connection.
    pub service_type: ServiceType,
    /// READs and atomics that this end accepts at a time; 255 means the most.
    pub responder_resources: u8,
    /// READs and atomics that it sends at a time; 255 means the most.
    pub initiator_depth: u8,
    /// Whether it uses end-to-end credits.
    pub flow_control: bool,
    /// How often the QPs retransmit: at most 7.
    pub retry_count: u8,
    /// How often the peer retries if this end has no receive; 7 means without limit.
    pub rnr_retry_count: u8,
    /// Private data for the peer.
    pub private: Vec<u8>,
}

impl ConnectionOptions {
    /// The options of a program that passes none: the most READs and atomics, and the most retries.
    pub fn new(qpn: u32, service_type: ServiceType) -> Self {
        Self {
            qpn,
            srq: false,
            service_type,
            responder_resources: MOST,
            initiator_depth: MOST,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            private: Vec::new(),
        }
    }

    /// These options, with depths and counts in range. `most` are the depths that 255 stands for.
    pub(super) fn checked(mut self, most: (u8, u8)) -> Result<Self, IdError> {
        self.responder_resources = depth(self.responder_resources, most.0)?;
        self.initiator_depth = depth(self.initiator_depth, most.1)?;
        self.retry_count = self.retry_count.min(7);
        self.rnr_retry_count = self.rnr_retry_count.min(7);
        Ok(self)
    }

    /// The QP, if it can be one of the program's.
    pub(super) fn qp(&self) -> Result<Qpn, IdError> {
        let qpn = self.qpn;
        Qpn::new(qpn).filter(|qpn| qpn.get() > 1).ok_or_else(|| {
            IdError::Invalid(format!(
                "qp_num is {qpn:#x}, but must be the number of a QP: create one by rdma_create_qp, or \
                 set rdma_conn_param.qp_num"
            ))
        })
    }
}

fn depth(requested: u8, most: u8) -> Result<u8, IdError> {
    match requested {
        MOST => Ok(most),
        requested if requested <= MAX_RD_ATOMIC => Ok(requested),
        _ => IdError::invalid(format!(
            "responder_resources or initiator_depth is {requested}, but must be at most \
             {MAX_RD_ATOMIC}, or 255 for the most"
        )),
    }
}

impl Id {
    /// Requests a connection, or the QP of a datagram service. An event follows.
    ///
    /// # Errors
    /// If the ID's state does not allow it, an option is wrong, or the agent refuses.
    pub fn connect(self: &Arc<Self>, options: ConnectionOptions) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::RouteResolved])?;
        let options = options.checked((MAX_RD_ATOMIC, MAX_RD_ATOMIC))?;
        let device = Arc::clone(inner.device()?);
        let (local, remote) = inner.ends()?;
        let path = Path {
            local: local.ip(),
            remote: remote.ip(),
        };
        let service = ServiceId::ip(self.space, remote.port());
        // The connection's events find its ID.
        let own = |connection| {
            device.connections.insert(connection, self);
            connection
        };
        let asked = if self.is_datagram() {
            let request = DatagramRequest {
                service,
                source_port: local.port(),
                pkey: PKey::DEFAULT,
                private: options.private,
            };
            device
                .manager
                .with(|agent, now| agent.resolve_datagram(now, path, &request).map(own))
        } else {
            let request = inner.request(service, local.port(), options)?;
            inner.negotiated.set_own_request(&request);
            device
                .manager
                .with(|agent, now| agent.connect(now, path, &request).map(own))
        };
        inner.connection = Some(asked?);
        inner.state = State::Connecting;
        Ok(())
    }

    /// Sends an RTU, after the program has brought its QP to RTS itself.
    ///
    /// # Errors
    /// If the peer has not accepted, or has given up.
    pub fn establish(&self) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::ReplyReceived])?;
        inner.send_rtu()?;
        inner.state = State::Connected;
        Ok(())
    }
}

impl Inner {
    fn request(
        &self,
        service: ServiceId,
        source_port: u16,
        options: ConnectionOptions,
    ) -> Result<ConnectRequest, IdError> {
        Ok(ConnectRequest {
            service,
            source_port,
            service_type: options.service_type,
            qpn: options.qp()?,
            rq_psn: Psn::new(self.psn),
            responder_resources: options.responder_resources,
            initiator_depth: options.initiator_depth,
            retry_count: options.retry_count,
            rnr_retry_count: options.rnr_retry_count,
            flow_control: options.flow_control,
            srq: options.srq,
            pkey: PKey::DEFAULT,
            path_mtu: self.path_mtu()?,
            traffic_class: self.negotiated.options.traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            ack_timeout: self.ack_timeout.unwrap_or(DEFAULT_ACK_TIMEOUT),
            private: options.private,
        })
    }

    /// Sends an RTU.
    pub(super) fn send_rtu(&self) -> Result<(), IdError> {
        self.with_agent(|agent, now, connection| agent.ready(now, connection, &[]))??;
        Ok(())
    }
}
