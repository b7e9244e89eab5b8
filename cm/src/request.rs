//! What owners ask agents for, and what peers ask for and answer.

use crate::{
    Duration, IpService, PKey, PathMtu, PrivateBytes, Psn, QKey, Qpn, QpnPart, ServiceId,
    ServiceType,
};

/// What an agent is made with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What randomness is drawn from: has to be secret and used once, since who can guess
    /// communication IDs can end connections.
    pub seed: [u8; 32],
    /// The part that communication IDs are of.
    pub part: QpnPart,
    /// The GUID of the node (in verbs: of the device), by which peers know which host
    /// connections are with.
    pub ca_guid: u64,
    /// How long this agent and its peers may take for an answer: 5 bits, 4.096 µs × 2^this.
    pub response_timeout: u8,
    /// How often a message is repeated that is not answered: 0 to 15.
    pub max_retries: u8,
    /// How long a packet may be under way: 5 bits, 4.096 µs × 2^this. Twice that time,
    /// what is left of a connection waits for late packets.
    pub packet_lifetime: u8,
    /// How often a path with connections is checked ([`Agent::poll_check`](crate::Agent::poll_check)),
    /// if at all.
    pub check_every: Option<Duration>,
}

impl Config {
    /// What suits a local network: 1.07 s for an answer, 15 retries (so an absent peer
    /// shows after some 26 s), packets that live for 0.27 s.
    /// Paths are not checked.
    pub const fn new(seed: [u8; 32], part: QpnPart, ca_guid: u64) -> Self {
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

/// What the active side asks for, and says of itself (IBTA 1.7, 12.6.5).
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// Whom it is for.
    pub service: ServiceId,
    /// The own port, if `service` names one; the addresses are those of the path.
    pub source_port: u16,
    /// Kind of connection.
    pub service_type: ServiceType,
    /// The own QP.
    pub qpn: Qpn,
    /// The PSN of the first packet that the peer sends: the own QP's `rq_psn`.
    pub rq_psn: Psn,
    /// READs and atomics that it takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that it wants to send at a time.
    pub initiator_depth: u8,
    /// How often the peer repeats packets: 0 to 7.
    pub retry_count: u8,
    /// How often the peer repeats after RNR NAKs: 0 to 6, 7 for ever.
    pub rnr_retry_count: u8,
    /// Whether it gives credits.
    pub flow_control: bool,
    /// Whether it takes its receives from an SRQ.
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
    /// A request from an RC QP, with values that suit a local network: 16 READs and atomics each
    /// way, 7 retries, unlimited RNR retries, a path MTU of 1024 bytes, a local ACK timeout of
    /// 67 ms, no private data, and source port 0. Change what differs:
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

/// What came in a REQ (IBTA 1.7, 12.6.5): the numbers are the peer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whom it is for.
    pub service: ServiceId,
    /// Who asks, if the service names a port: port and addresses, which are the peer's
    /// claim. The addresses that its packets really have are those of the path.
    pub ip: Option<IpService>,
    /// Kind of connection.
    pub service_type: ServiceType,
    /// The peer's node.
    pub ca_guid: u64,
    /// The peer's QP.
    pub qpn: Qpn,
    /// The PSN that the peer expects first: the own QP's `sq_psn`.
    pub sq_psn: Psn,
    /// READs and atomics that the peer takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that the peer wants to send at a time.
    pub initiator_depth: u8,
    /// How often the recipient should repeat packets: 0 to 7.
    pub retry_count: u8,
    /// How often it should repeat after RNR NAKs: 0 to 6, 7 for ever.
    pub rnr_retry_count: u8,
    /// Whether the peer gives credits.
    pub flow_control: bool,
    /// Whether the peer takes its receives from an SRQ.
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
    /// The local ACK timeout that the recipient should have: 5 bits, 4.096 µs × 2^this.
    pub ack_timeout: u8,
    /// Private data, without that of Annex A11: 92 bytes, 56 if the service names a port.
    pub private: PrivateBytes,
}

/// What the passive side says of itself (IBTA 1.7, 12.6.8).
#[derive(Clone, Debug)]
pub struct Acceptance {
    /// The own QP.
    pub qpn: Qpn,
    /// The PSN of the first packet that the peer sends: the own QP's `rq_psn`.
    pub rq_psn: Psn,
    /// READs and atomics that it takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that it will send at a time.
    pub initiator_depth: u8,
    /// How long its acknowledgements take: 5 bits, 4.096 µs × 2^this.
    pub target_ack_delay: u8,
    /// Whether it gives credits.
    pub flow_control: bool,
    /// How often the peer repeats after RNR NAKs: 0 to 6, 7 for ever.
    pub rnr_retry_count: u8,
    /// Whether it takes its receives from an SRQ.
    pub srq: bool,
    /// Private data: at most 196 bytes.
    pub private: Vec<u8>,
}

impl Acceptance {
    /// An answer to `request` for the own QP `qpn`, which expects `rq_psn` first: as many READs
    /// and atomics each way as the peer asks for, at most 16, unlimited RNR retries, and no
    /// private data.
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

/// What came in a REP (IBTA 1.7, 12.6.8): the numbers are the peer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The peer's node.
    pub ca_guid: u64,
    /// The peer's QP.
    pub qpn: Qpn,
    /// The PSN that the peer expects first: the own QP's `sq_psn`.
    pub sq_psn: Psn,
    /// READs and atomics that the peer takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that the peer will send at a time.
    pub initiator_depth: u8,
    /// How long its acknowledgements take: 5 bits, 4.096 µs × 2^this.
    pub target_ack_delay: u8,
    /// Whether the peer gives credits.
    pub flow_control: bool,
    /// How often the recipient should repeat after RNR NAKs: 0 to 6, 7 for ever.
    pub rnr_retry_count: u8,
    /// Whether the peer takes its receives from an SRQ.
    pub srq: bool,
    /// Private data: 196 bytes.
    pub private: PrivateBytes,
}

/// Whom to ask for the QP of a datagram service (IBTA 1.7, 12.11.1).
#[derive(Clone, Debug)]
pub struct DatagramRequest {
    /// Whom it is for.
    pub service: ServiceId,
    /// The own port, if `service` names one; the addresses are those of the path.
    pub source_port: u16,
    /// The partition.
    pub pkey: PKey,
    /// Private data: at most 216 bytes, 180 if `service` names a port.
    pub private: Vec<u8>,
}

/// What came in a SIDR_REQ (IBTA 1.7, 12.11.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramAsked {
    /// Whom it is for.
    pub service: ServiceId,
    /// Who asks, if the service names a port: the peer's claim.
    pub ip: Option<IpService>,
    /// The partition.
    pub pkey: PKey,
    /// Private data, without that of Annex A11: 216 bytes, 180 if the service names a port.
    pub private: PrivateBytes,
}

/// The QP of a datagram service, for who asked.
#[derive(Clone, Debug)]
pub struct DatagramAcceptance {
    /// The QP.
    pub qpn: Qpn,
    /// The key that its datagrams must carry.
    pub qkey: QKey,
    /// Private data: at most 136 bytes.
    pub private: Vec<u8>,
}
