//! rping's protocol over the Rust API: the client sends the address of a text, and the server READs
//! it; the client sends the address of a buffer, and the server WRITEs the text there. The server
//! confirms each with a SEND.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use roce_verbs::cm::{ConnectionManager, PortClaim};
use roce_verbs::completion::WcOpcode;
use roce_verbs::prelude::*;
use roce_verbs::roce_cm::{
    Agent, Config, ConnectRequest, ConnectionId, Event, Instant, ListenerId, MAD_LEN, Path,
    PortSpace, Qpn, QpnRange, ServiceId,
};
use roce_verbs::settings::OpenOptions;

const TIMEOUT: Duration = Duration::from_secs(60);
/// rping's usual port.
const PORT: u16 = 7174;

/// Texts that go both ways.
pub(super) const ROUNDS: usize = 3;
/// Bytes of a text.
pub(super) const SIZE: usize = 1000;

/// Offsets in an end's region: the outgoing message with an address and a length, the received one,
/// and two texts.
const OUT: usize = 0;
const IN: usize = 16;
const ADVERTISEMENT: usize = 16;
const SOURCE: usize = 1024;
const SINK: usize = 2048;

/// A Rust program at an address.
pub(super) struct End {
    context: Context,
    at: IpAddr,
    manager: Arc<ConnectionManager>,
    events: Receiver<Event>,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    region: MemoryRegion,
}

/// One that listens.
pub(super) struct Server {
    end: End,
    listener: Listener,
}

/// One that listens, and performs the steps of a connection one by one.
pub(super) struct ServerBySteps {
    end: End,
    _claim: PortClaim,
    _listener: ListenerId,
}

impl End {
    pub(super) fn open(at: IpAddr) -> Self {
        let device = Device::with_address(at).expect("a device");
        let context = OpenOptions::new().open(&device).expect("opened");
        let manager = context.connection_manager().expect("started");
        let (tell, events) = channel();
        manager.set_sink(Box::new(move |event| {
            // The test may be over.
            let _ = tell.send(event);
        }));
        manager.activate(at).expect("an address of the device");
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let region = pd.allocate(4096, Access::ANY_MEMORY).expect("allocated");
        Self {
            context,
            at,
            manager,
            events,
            pd,
            cq,
            region,
        }
    }

    /// A QP in INIT with a receive.
    fn qp(&self) -> QueuePair {
        let qp = self.pd.create_qp(&self.cq, &self.cq, &QpOptions::default());
        let qp = qp.expect("a QP");
        qp.to_init(ConnectOptions::default().access).expect("INIT");
        self.receive(&qp);
        qp
    }

    fn path_to(&self, remote: IpAddr) -> Path {
        let local = self.at;
        Path { local, remote }
    }

    fn event(&self) -> Event {
        self.events.recv_timeout(TIMEOUT).expect("an event")
    }

    /// The client, from the connection's beginning to its end.
    pub(super) fn ask(&self, server: IpAddr) {
        let to = SocketAddr::new(server, PORT);
        let connection = Connection::connect(self.qp(), to, &ConnectOptions::default(), b"");
        let connection = connection.expect("accepted");
        (0..ROUNDS).for_each(|round| self.ping(&connection, round));
        assert!(connection.disconnect(TIMEOUT), "the peer does not agree");
    }

    /// The same, step by step.
    pub(super) fn ask_by_steps(&self, server: IpAddr) {
        let qp = self.qp();
        let (path, options) = (self.path_to(server), ConnectOptions::default());
        let service = ServiceId::ip(PortSpace::Tcp, PORT);
        let request = qp.connect_request(service, &options);
        let request = request.expect("an RC QP");
        let asked = self
            .manager
            .with(|agent, now| agent.connect(now, path, &request));
        let connection = asked.expect("a good request");
        let event = self.event();
        let Event::Replied { reply, .. } = event else {
            panic!("a reply was expected, not {event:?}");
        };
        let connected = qp.connect_with(&path, &reply, &options);
        connected.expect("RTS");
        let ready = self
            .manager
            .with(|agent, now| agent.ready(now, connection, &[]));
        ready.expect("the peer accepted");
        (0..ROUNDS).for_each(|round| self.ping(&qp, round));
        self.disconnect(connection);
    }

    fn ping(&self, qp: &QueuePair, round: usize) {
        let mut text = format!("rdma-ping-{round}: ").into_bytes();
        text.resize_with(SIZE - 1, || b'a' + round as u8);
        text.push(0);
        self.region.write(SOURCE, &text).expect("in range");
        self.region.write(SINK, &[0; SIZE]).expect("in range");
        for at in [SOURCE, SINK] {
            self.advertise(qp, at);
            self.wait_for(WcOpcode::Recv);
            self.receive(qp);
        }
        let mut came = vec![0; SIZE];
        self.region.read(SINK, &mut came).expect("in range");
        assert!(came == text, "the text came back changed");
    }

    fn advertise(&self, qp: &QueuePair, at: usize) {
        let RemoteAddr { addr, rkey } = self.region.remote(at as u64);
        let mut message = addr.to_be_bytes().to_vec();
        message.extend(rkey.to_be_bytes());
        message.extend((SIZE as u32).to_be_bytes());
        self.region.write(OUT, &message).expect("in range");
        self.perform(qp, SendOp::Send, OUT, ADVERTISEMENT);
    }

    /// Starts listening.
    pub(super) fn listen(self) -> Server {
        let listener = Listener::bind(&self.context, (self.at, PORT).into());
        Server {
            listener: listener.expect("free"),
            end: self,
        }
    }

    /// The same, step by step.
    pub(super) fn listen_by_steps(self) -> ServerBySteps {
        let claim = self
            .manager
            .claim_port(PortSpace::Tcp, Some(self.at), PORT)
            .expect("free");
        let listener = self.manager.listen(&claim, 8).expect("nobody else listens");
        ServerBySteps {
            end: self,
            _claim: claim,
            _listener: listener,
        }
    }

    fn answer(&self, qp: &QueuePair) -> ConnectionId {
        let event = self.event();
        let Event::Requested {
            connection,
            path,
            request,
            ..
        } = event
        else {
            panic!("a request was expected, not {event:?}");
        };
        let options = ConnectOptions::default();
        let acceptance = qp.accept_with(&path, &request, &options);
        let acceptance = acceptance.expect("RTS");
        let accepted = self
            .manager
            .with(|agent, now| agent.accept(now, connection, &acceptance));
        accepted.expect("it waits for an answer");
        let event = self.event();
        assert!(matches!(event, Event::Established { .. }), "{event:?}");
        connection
    }

    fn pong(&self, qp: &QueuePair) {
        for op in [SendOp::Read, SendOp::Write] {
            self.wait_for(WcOpcode::Recv);
            let mut message = [0; ADVERTISEMENT];
            self.region.read(IN, &mut message).expect("in range");
            let [addr, rkey_and_len] = [0, 8].map(|at| {
                let bytes = message[at..at + 8].try_into().expect("8 bytes");
                u64::from_be_bytes(bytes)
            });
            assert_eq!(rkey_and_len as u32, SIZE as u32);
            let rkey = (rkey_and_len >> 32) as u32;
            self.receive(qp);
            self.perform(qp, op(RemoteAddr { addr, rkey }), SINK, SIZE);
            // Fenced: the client's next message asks for what the READ brings.
            let sges = [self.region.slice(OUT, ADVERTISEMENT).expect("in range")];
            let confirmation = SendRequest::new(1, SendOp::Send, &sges).fenced();
            qp.post_send(&confirmation).expect("posted");
        }
    }

    /// A REQ that the other end of the path seems to have sent, for a QP with this number.
    fn forged_req(&self, path: Path, qpn: Qpn) -> [u8; MAD_LEN] {
        let service = ServiceId::ip(PortSpace::Tcp, PORT);
        let request = self
            .qp()
            .connect_request(service, &ConnectOptions::default());
        let request = ConnectRequest {
            qpn,
            ..request.expect("an RC QP")
        };
        let path = Path {
            local: path.remote,
            remote: path.local,
        };
        let mut attacker = Agent::new(Config::new([7; 32], QpnRange::FIRST, 7));
        let sent = attacker.connect(Instant::ZERO, path, &request);
        sent.expect("the request is valid");
        attacker.poll_transmit().expect("a REQ").1
    }

    fn receive(&self, qp: &QueuePair) {
        let sges = [self.region.slice(IN, ADVERTISEMENT).expect("in range")];
        let request = RecvRequest {
            wr_id: 2,
            sges: &sges,
        };
        qp.post_recv(&request).expect("posted");
    }

    fn perform(&self, qp: &QueuePair, op: SendOp, at: usize, len: usize) {
        let sges = [self.region.slice(at, len).expect("in range")];
        let request = SendRequest::new(1, op, &sges);
        qp.post_send(&request).expect("posted");
    }

    /// Polls completions up to the one with this opcode.
    fn wait_for(&self, opcode: WcOpcode) {
        loop {
            let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
            let done: Completion = done.expect("completed");
            assert_eq!(done.status, WcStatus::Success, "{done:?}");
            if done.opcode == opcode {
                return;
            }
        }
    }

    /// Ends the connection, whichever end is the first to disconnect.
    fn disconnect(&self, connection: ConnectionId) {
        let done = self
            .manager
            .with(|agent, now| agent.disconnect(now, connection, &[]));
        done.expect("it is established");
        loop {
            match self.event() {
                Event::TimeWaitOver { .. } => return,
                Event::Disconnected { .. } | Event::DisconnectRequested { .. } => {}
                event => panic!("the end was expected, not {event:?}"),
            }
        }
    }
}

impl Server {
    /// Serves one client, to the connection's end.
    pub(super) fn serve(self) {
        let Self { end, listener } = self;
        let incoming = listener.accept_within(TIMEOUT).expect("a request");
        let connection = incoming.accept(end.qp(), &ConnectOptions::default(), b"");
        let connection = connection.expect("established");
        (0..ROUNDS).for_each(|_| end.pong(&connection));
        assert!(connection.wait_for_end(TIMEOUT), "the client does not end");
    }
}

impl ServerBySteps {
    /// Serves one client, to the connection's end.
    pub(super) fn serve(self) {
        let qp = self.end.qp();
        let connection = self.end.answer(&qp);
        self.serve_connection(&qp, connection);
    }

    /// The same, while an attacker that knows no communication ID sends a REQ in the client's name.
    pub(super) fn serve_under_attack(self, client: IpAddr) {
        let qp = self.end.qp();
        let connection = self.end.answer(&qp);
        let path = self.end.path_to(client);
        let forged = self.end.forged_req(path, qp.query().1.dest_qpn);
        let manager = &self.end.manager;
        manager.with(|agent, now| agent.receive(now, path, &forged));
        self.serve_connection(&qp, connection);
        let counters = manager.with(|agent, _| *agent.counters());
        assert!(counters.probes > 0, "{counters:?}");
        assert_eq!(counters.probe_answers, 0, "{counters:?}");
    }

    fn serve_connection(&self, qp: &QueuePair, connection: ConnectionId) {
        (0..ROUNDS).for_each(|_| self.end.pong(qp));
        let event = self.end.event();
        assert!(
            matches!(event, Event::DisconnectRequested { .. }),
            "{event:?}"
        );
        self.end.disconnect(connection);
    }
}
