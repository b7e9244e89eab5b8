//! Hosts with an agent each, and the messages between them.

use roce_cm::{
    Acceptance, Agent, CmError, Config, ConnectRequest, ConnectionId, DatagramRequest, Duration,
    Event, Instant, ListenerId, MAD_LEN, PKey, Path, PathMtu, PortSpace, Psn, Qpn, QpnRange,
    ServiceId, ServiceType,
};
use roce_wire::cm::{CmMad, CmMessage};
use std::net::IpAddr;

/// The service at which servers of connections listen.
pub(crate) const SERVICE: ServiceId = ServiceId::ip(PortSpace::Tcp, 7174);
/// The service at which servers of datagrams listen.
pub(crate) const DATAGRAMS: ServiceId = ServiceId::ip(PortSpace::Udp, 7174);

/// Longer than any time wait, and longer than the time for which agents keep answers.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The instant `ms` milliseconds after the origin.
pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A MAD with its path, from the sender's point of view.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) path: Path,
    pub(crate) mad: [u8; MAD_LEN],
}

impl Sent {
    pub(crate) fn parsed(&self) -> CmMad<'_> {
        CmMad::parse(&self.mad).expect("agents send valid MADs")
    }

    pub(crate) fn message(&self) -> CmMessage<'_> {
        self.parsed().message
    }

    /// The kind of a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self.message() {
            CmMessage::Req(_) => "REQ",
            CmMessage::Mra(_) => "MRA",
            CmMessage::Rej(_) => "REJ",
            CmMessage::Rep(_) => "REP",
            CmMessage::Rtu(_) => "RTU",
            CmMessage::Dreq(_) => "DREQ",
            CmMessage::Drep(_) => "DREP",
            CmMessage::SidrReq(_) => "SIDR_REQ",
            CmMessage::SidrRep(_) => "SIDR_REP",
        }
    }
}

/// The kinds of these messages.
pub(crate) fn kinds(sent: &[Sent]) -> Vec<&'static str> {
    sent.iter().map(Sent::kind).collect()
}

/// A host, with the agent of its one process.
pub(crate) struct Host {
    pub(crate) agent: Agent,
    pub(crate) address: IpAddr,
}

impl Host {
    pub(crate) fn new(number: u8) -> Self {
        let part = QpnRange::new(number).expect("a part");
        let mut config = Config::new([number; 32], part, u64::from(number));
        config.max_retries = 15;
        Self {
            agent: Agent::new(config),
            address: IpAddr::from([10, 0, 0, number]),
        }
    }

    /// A client and a server that listens for connections.
    pub(crate) fn pair() -> (Self, Self, ListenerId) {
        let mut server = Self::new(2);
        let listener = server.agent.listen(at(0), SERVICE, None, 10);
        (Self::new(1), server, listener.expect("the service is free"))
    }

    pub(crate) fn path_to(&self, other: &Self) -> Path {
        Path {
            local: self.address,
            remote: other.address,
        }
    }

    /// Takes all messages that the agent wants to send.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let next = || self.agent.poll_transmit();
        std::iter::from_fn(next)
            .map(|(path, mad)| Sent { path, mad })
            .collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.agent.poll_event()).collect()
    }

    /// Takes the only pending event.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Event {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn receive(&mut self, now: Instant, sent: &Sent) {
        let path = Path {
            local: sent.path.remote,
            remote: sent.path.local,
        };
        assert_eq!(path.local, self.address, "the message is for this host");
        self.agent.receive(now, path, &sent.mad);
    }

    pub(crate) fn receive_all(&mut self, now: Instant, sent: &[Sent]) {
        for sent in sent {
            self.receive(now, sent);
        }
    }

    /// Delivers the only message of `self` to `other`, and checks its kind.
    #[track_caller]
    pub(crate) fn deliver(&mut self, now: Instant, other: &mut Self, kind: &str) -> Sent {
        let sent = self.sent();
        assert_eq!(kinds(&sent), [kind]);
        other.receive(now, &sent[0]);
        sent[0].clone()
    }

    /// Requests a connection from the server, and delivers the REQ. Returns the connection's ID at
    /// both ends.
    #[track_caller]
    pub(crate) fn request(
        &mut self,
        now: Instant,
        server: &mut Self,
    ) -> (ConnectionId, ConnectionId) {
        let path = self.path_to(server);
        let active = self.agent.connect(now, path, &connect_request());
        self.deliver(now, server, "REQ");
        let passive = server.event().connection();
        (active.expect("the request is valid"), passive)
    }

    /// Establishes a connection, and delivers all messages. Returns the connection's ID at both
    /// ends.
    #[track_caller]
    pub(crate) fn establish(
        &mut self,
        now: Instant,
        server: &mut Self,
    ) -> (ConnectionId, ConnectionId) {
        let (active, passive) = self.request(now, server);
        server.accept(now, passive);
        server.deliver(now, self, "REP");
        self.event();
        self.ready(now, active, &[]);
        self.deliver(now, server, "RTU");
        server.event();
        (active, passive)
    }

    /// Accepts the request.
    #[track_caller]
    pub(crate) fn accept(&mut self, now: Instant, id: ConnectionId) {
        let accepted = self.agent.accept(now, id, &acceptance());
        accepted.expect("the state allows it");
    }

    /// Reports the QP as ready, after the other end has accepted.
    #[track_caller]
    pub(crate) fn ready(&mut self, now: Instant, id: ConnectionId, private: &[u8]) {
        let ready = self.agent.ready(now, id, private);
        ready.expect("the state allows it");
    }

    /// Ends a connection, or answers the DREQ of the other end.
    #[track_caller]
    pub(crate) fn disconnect(&mut self, now: Instant, id: ConnectionId, private: &[u8]) {
        let ended = self.agent.disconnect(now, id, private);
        ended.expect("the connection is established");
    }

    /// Advances the time to `now`, step by step, and returns the messages sent meanwhile.
    pub(crate) fn wait_until(&mut self, now: Instant) -> Vec<Sent> {
        let mut sent = self.sent();
        while let Some(due) = self.agent.next_timeout().filter(|&due| due <= now) {
            self.agent.handle_timeouts(due);
            sent.extend(self.sent());
        }
        sent
    }
}

/// A request with a different number in each field.
pub(crate) fn connect_request() -> ConnectRequest {
    ConnectRequest {
        service: SERVICE,
        source_port: 40_000,
        service_type: ServiceType::Rc,
        qpn: Qpn::from_bits(0x11),
        rq_psn: Psn::new(0x12),
        responder_resources: 3,
        initiator_depth: 4,
        retry_count: 5,
        rnr_retry_count: 6,
        flow_control: true,
        srq: true,
        pkey: PKey::DEFAULT,
        path_mtu: PathMtu::Mtu1024,
        traffic_class: 0x68,
        hop_limit: 64,
        flow_label: 0x12345,
        ack_timeout: 17,
        private: b"please".to_vec(),
    }
}

pub(crate) fn acceptance() -> Acceptance {
    Acceptance {
        qpn: Qpn::from_bits(0x21),
        rq_psn: Psn::new(0x22),
        responder_resources: 4,
        initiator_depth: 3,
        target_ack_delay: 15,
        flow_control: true,
        rnr_retry_count: 7,
        srq: false,
        private: b"yes".to_vec(),
    }
}

pub(crate) fn datagram_request() -> DatagramRequest {
    DatagramRequest {
        service: DATAGRAMS,
        source_port: 40_000,
        pkey: PKey::DEFAULT,
        private: b"where".to_vec(),
    }
}

/// The bytes, padded with zeros to `len`.
pub(crate) fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(len, 0);
    padded
}

/// Checks that a call fails because the connection is in another state.
#[track_caller]
pub(crate) fn assert_wrong_state<T: std::fmt::Debug>(result: Result<T, CmError>) {
    assert!(
        matches!(result, Err(CmError::WrongState { .. })),
        "{result:?}"
    );
}
