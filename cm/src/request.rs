//! The contents of requests and answers: those that the owner sends, and those that the peer sent.

use crate::{
    Duration, IpService, PKey, PathMtu, PrivateBytes, Psn, QKey, Qpn, QpnRange, ServiceId,
    ServiceType,
};

/// The configuration of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The seed of all random numbers. It must be secret and used only once: an attacker that can
    /// guess communication IDs can end connections.
    pub seed: [u8; 32],
    /// The part of the ID space that this agent draws communication IDs from.
    pub part: QpnRange,
    /// The GUID of the node (in verbs: of the device), by which peers identify the host of a
    /// connection.
    pub ca_guid: u64,
    /// The longest time that this agent, and a peer, takes to respond: 5 bits, 4.096 µs × 2^this.
    pub response_timeout: u8,
    /// The number of retransmissions of a message that is not answered: 0 to 15.
    pub max_retries: u8,
    /// The lifetime of a packet in the network: 5 bits, 4.096 µs × 2^this. An ended connection
    /// waits twice that time for late packets.
    pub packet_lifetime: u8,
    /// How often to check a path with connections
    /// ([`Agent::poll_check`](crate::Agent::poll_check)); `None` for never.
    pub check_every: Option<Duration>,
}

impl Config {
    /// Values for a local network: a response timeout of 1.07 s, 15 retries (after about 26 s, an
    /// absent peer is reported as unreachable), and a packet lifetime of 0.27 s. Paths are not
    /// checked.
    pub const fn new(seed: [u8; 32], part: QpnRange, ca_guid: u64) -> Self {
        Self {
            seed,
            part,
            ca_guid,
            response_timeout: 18,
            max_retries: 15,
            packet_lifetime: 16,
            check_every: None,
        }
    }
}

/// The active side's request, and its own parameters (IBTA 1.7, 12.6.5).
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The service that it requests.
    pub service: ServiceId,
    /// The requester's port, if `service` names one; the addresses are those of the path.
    pub source_port: u16,
    /// The type of connection.
    pub service_type: ServiceType,
    /// The requester's QP.
    pub qpn: Qpn,
    /// The PSN of the first packet that the peer sends: the `rq_psn` of the requester's QP.
    pub rq_psn: Psn,
    /// The most outstanding READs and atomics that it accepts.
    pub responder_resources: u8,
    /// The most outstanding READs and atomics that it wants to send.
    pub initiator_depth: u8,
    /// The number of times that the peer retransmits: 0 to 7.
    pub retry_count: u8,
    /// The number of times that the peer retries after RNR NAKs: 0 to 6, 7 without limit.
    pub rnr_retry_count: u8,
    /// Whether it uses end-to-end credits.
    pub flow_control: bool,
    /// Whether its QP uses an SRQ.
    pub srq: bool,
    /// The partition.
    pub pkey: PKey,
    /// The path MTU.
    pub path_mtu: PathMtu,
    /// The traffic class of the connection's packets.
    pub traffic_class: u8,
    /// Their hop limit.
    pub hop_limit: u8,
    /// Their flow label: 20 bits.
    pub flow_label: u32,
    /// The local ACK timeout: 5 bits, 4.096 µs × 2^this.
    pub ack_timeout: u8,
    /// Private data: at most 92 bytes, 56 if `service` names a port.
    pub private: Vec<u8>,
}

impl ConnectRequest {
    /// A request from an RC QP, with values for a local network: 16 READs and atomics each way, 7
    /// retries, unlimited RNR retries, a path MTU of 1024 bytes, a local ACK timeout of 67 ms, no
    /// private data, and source port 0. Change the fields that differ:
    ///
    /// ```
    /// # use roce_cm::{ConnectRequest, PortSpace, Psn, Qpn, ServiceId};
    /// let service = ServiceId::ip(PortSpace::Tcp, 7471);
    /// let request = ConnectRequest {
    ///     private: b"hello".to_vec(),
    ///     ..ConnectRequest::new(service, Qpn::from_bits(17), Psn::new(0x1234))
    /// };
    /// assert_eq!(request.retry_count, 7);
    /// ```
    pub const fn new(service: ServiceId, qpn: Qpn, rq_psn: Psn) -> Self {
        Self {
            service,
            source_port: 0,
            service_type: ServiceType::Rc,
            qpn,
            rq_psn,
            responder_resources: 16,
            initiator_depth: 16,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: true,
            srq: false,
            pkey: PKey::DEFAULT,
            path_mtu: PathMtu::Mtu1024,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            ack_timeout: 14,
            private: Vec::new(),
        }
    }
}

/// The contents of a REQ (IBTA 1.7, 12.6.5), from the peer's point of view. Only `sq_psn` is named
/// after the local QP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The requested service.
    pub service: ServiceId,
    /// The requester's port and addresses as it claims them, if the service names a port. The
    /// actual addresses of its packets are those of the path.
    pub ip: Option<IpService>,
    /// The type of connection.
    pub service_type: ServiceType,
    /// The GUID of the peer's node.
    pub ca_guid: u64,
    /// The peer's QP.
    pub qpn: Qpn,
    /// The PSN that the peer expects first: the `sq_psn` of the local QP.
    pub sq_psn: Psn,
    /// The most outstanding READs and atomics that the peer accepts.
    pub responder_resources: u8,
    /// The most outstanding READs and atomics that the peer wants to send.
    pub initiator_depth: u8,
    /// The number of times that the recipient should retransmit: 0 to 7.
    pub retry_count: u8,
    /// The number of times that it should retry after RNR NAKs: 0 to 6, 7 without limit.
    pub rnr_retry_count: u8,
    /// Whether the peer uses end-to-end credits.
    pub flow_control: bool,
    /// Whether the peer's QP uses an SRQ.
    pub srq: bool,
    /// The partition.
    pub pkey: PKey,
    /// The path MTU.
    pub path_mtu: PathMtu,
    /// The traffic class of the connection's packets.
    pub traffic_class: u8,
    /// Their hop limit.
    pub hop_limit: u8,
    /// Their flow label: 20 bits.
    pub flow_label: u32,
    /// The local ACK timeout that the recipient's QP should use: 5 bits, 4.096 µs × 2^this.
    pub ack_timeout: u8,
    /// Private data, without that of Annex A11: 92 bytes, 56 if the service names a port.
    pub private: PrivateBytes,
}

/// The passive side's parameters (IBTA 1.7, 12.6.8).
#[derive(Clone, Debug)]
pub struct Acceptance {
    /// The local QP.
    pub qpn: Qpn,
    /// The PSN of the first packet that the peer sends: the `rq_psn` of the local QP.
    pub rq_psn: Psn,
    /// The most outstanding READs and atomics that it accepts.
    pub responder_resources: u8,
    /// The most outstanding READs and atomics that it will send.
    pub initiator_depth: u8,
    /// The delay of its acknowledgements: 5 bits, 4.096 µs × 2^this.
    pub target_ack_delay: u8,
    /// Whether it uses end-to-end credits.
    pub flow_control: bool,
    /// The number of times that the peer retries after RNR NAKs: 0 to 6, 7 without limit.
    pub rnr_retry_count: u8,
    /// Whether its QP uses an SRQ.
    pub srq: bool,
    /// Private data: at most 196 bytes.
    pub private: Vec<u8>,
}

impl Acceptance {
    /// An answer to `request` for the local QP `qpn`, which expects `rq_psn` first. It accepts as
    /// many READs and atomics each way as the peer requests, up to 16. It sets unlimited RNR
    /// retries and no private data.
    pub fn new(request: &Request, qpn: Qpn, rq_psn: Psn) -> Self {
        Self {
            qpn,
            rq_psn,
            responder_resources: request.initiator_depth.min(16),
            initiator_depth: request.responder_resources.min(16),
            target_ack_delay: 0,
            flow_control: true,
            rnr_retry_count: 7,
            srq: false,
            private: Vec::new(),
        }
    }
}

/// The contents of a REP (IBTA 1.7, 12.6.8), from the peer's point of view. Only `sq_psn` is named
/// after the local QP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The GUID of the peer's node.
    pub ca_guid: u64,
    /// The peer's QP.
    pub qpn: Qpn,
    /// The PSN that the peer expects first: the `sq_psn` of the local QP.
    pub sq_psn: Psn,
    /// The most outstanding READs and atomics that the peer accepts.
    pub responder_resources: u8,
    /// The most outstanding READs and atomics that the peer will send.
    pub initiator_depth: u8,
    /// The delay of its acknowledgements: 5 bits, 4.096 µs × 2^this.
    pub target_ack_delay: u8,
    /// Whether the peer uses end-to-end credits.
    pub flow_control: bool,
    /// The number of times that the recipient should retry after RNR NAKs: 0 to 6, 7 without limit.
    pub rnr_retry_count: u8,
    /// Whether the peer's QP uses an SRQ.
    pub srq: bool,
    /// Private data: 196 bytes.
    pub private: PrivateBytes,
}

/// A request for the QP of a datagram service (IBTA 1.7, 12.11.1).
#[derive(Clone, Debug)]
pub struct DatagramRequest {
    /// The service that it requests.
    pub service: ServiceId,
    /// The requester's port, if `service` names one; the addresses are those of the path.
    pub source_port: u16,
    /// The partition.
    pub pkey: PKey,
    /// Private data: at most 216 bytes, 180 if `service` names a port.
    pub private: Vec<u8>,
}

/// The contents of a SIDR_REQ (IBTA 1.7, 12.11.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramAsked {
    /// The requested service.
    pub service: ServiceId,
    /// The requester's port and addresses as it claims them, if the service names a port.
    pub ip: Option<IpService>,
    /// The partition.
    pub pkey: PKey,
    /// Private data, without that of Annex A11: 216 bytes, 180 if the service names a port.
    pub private: PrivateBytes,
}

/// The answer to a request for the QP of a datagram service.
#[derive(Clone, Debug)]
pub struct DatagramAcceptance {
    /// The QP.
    pub qpn: Qpn,
    /// The key that its datagrams must carry.
    pub qkey: QKey,
    /// Private data: at most 136 bytes.
    pub private: Vec<u8>,
}
