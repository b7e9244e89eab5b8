//! Connections by the connection manager over loopback: between contexts at two addresses, at one
//! address, and between processes.

use roce_verbs::cm::{ConnectionManager, ListenError, PortClaim, PortClaimError};
use roce_verbs::observation::Stat;
use roce_verbs::qp::{PathMtu, QpAttributes, QpState};
use roce_verbs::roce_cm::{
    Acceptance, Addresses, ConnectRequest, ConnectionId, Event, ListenerId, PKey, Path, PortSpace,
    RejectReason, Request, ServiceId, ServiceType,
};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, Endpoint, MemoryRegion, QpOptions,
    QueuePair, RecvRequest, SendOp, SendRequest, WcStatus,
};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
const LEN: usize = 4096;
const ROLE: &str = "ROCE_TEST_LISTENER";

/// An address of the loopback network that no other test uses.
fn address(last: u8) -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last))
}

/// One end: a QP, and the manager that connects it.
struct Side {
    at: IpAddr,
    context: Context,
    manager: Arc<ConnectionManager>,
    events: Receiver<Event>,
    cq: CompletionQueue,
    qp: QueuePair,
    region: MemoryRegion,
}

impl Side {
    fn open(at: IpAddr) -> Self {
        let device = Device::with_address(at).expect("loopback");
        let context = OpenOptions::new().open(&device).expect("opened");
        let manager = context.connection_manager().expect("started");
        let (sender, events) = channel();
        manager.set_sink(Box::new(move |event| {
            // The receiver may be gone.
            let _ = sender.send(event);
        }));
        manager.activate(at).expect("an address of the device");
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        let region = pd.allocate(LEN, Access::ANY_MEMORY).expect("allocated");
        Self {
            at,
            context,
            manager,
            events,
            cq,
            qp,
            region,
        }
    }

    fn claim(&self, port: u16) -> PortClaim {
        let claim = self.manager.claim_port(PortSpace::Tcp, Some(self.at), port);
        claim.expect("free")
    }

    fn listen(&self, port: u16) -> (PortClaim, ListenerId) {
        let claim = self.claim(port);
        let listener = self.manager.listen(&claim, 8).expect("nobody else listens");
        (claim, listener)
    }

    #[track_caller]
    fn event(&self) -> Event {
        self.events.recv_timeout(TIMEOUT).expect("an event")
    }

    fn gid_index(&self) -> u8 {
        let gids = self.context.gids();
        let entry = gids.iter().find(|entry| entry.gid.ip() == self.at);
        entry.expect("the address has a GID").index
    }

    fn endpoint(&self) -> Endpoint {
        self.qp.endpoint(self.gid_index()).expect("an endpoint")
    }

    /// Moves the QP to RTS, from any state, with a receive posted.
    fn ready_qp(&self, remote: &Endpoint) {
        let options = ConnectOptions {
            timeout: 14,
            path_mtu: Some(PathMtu::Mtu1024),
            ..ConnectOptions::default()
        };
        let reset = QpAttributes {
            state: Some(QpState::Reset),
            ..QpAttributes::default()
        };
        self.qp.modify(&reset).expect("RESET");
        self.qp.to_init(options.access).expect("INIT");
        let sge = self.region.all().expect("in range");
        self.qp
            .post_recv(&RecvRequest {
                wr_id: 2,
                sges: &[sge],
            })
            .expect("posted");
        let index = self.gid_index();
        // Each side has chosen the PSN at which its peer begins.
        let expected = Endpoint {
            psn: self.endpoint().psn,
            ..*remote
        };
        self.qp.to_rtr(index, &expected, &options).expect("RTR");
        let rts = QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: Some(remote.psn),
            timeout: Some(options.timeout),
            retry_cnt: Some(options.retry_cnt),
            rnr_retry: Some(options.rnr_retry),
            max_rd_atomic: Some(options.max_rd_atomic),
            ..QpAttributes::default()
        };
        self.qp.modify(&rts).expect("RTS");
    }

    /// Requests a connection.
    fn connect(&self, to: IpAddr, service: ServiceId) -> ConnectionId {
        let endpoint = self.endpoint();
        let request = ConnectRequest {
            service,
            source_port: 1234,
            service_type: ServiceType::Rc,
            qpn: endpoint.qpn,
            rq_psn: endpoint.psn,
            responder_resources: 1,
            initiator_depth: 1,
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
            private: b"who are you?".to_vec(),
        };
        let path = Path {
            local: self.at,
            remote: to,
        };
        let asked = self
            .manager
            .with(|agent, now| agent.connect(now, path, &request));
        asked.expect("a good request")
    }

    /// Accepts the request that has arrived.
    fn accept(&self) -> (ConnectionId, Request) {
        let Event::Requested {
            connection,
            path,
            request,
            ..
        } = self.event()
        else {
            panic!("a request was expected");
        };
        assert_eq!(path.local, self.at);
        self.ready_qp(&Endpoint {
            gid: path.remote.into(),
            qpn: request.qpn,
            psn: request.sq_psn,
        });
        let endpoint = self.endpoint();
        let acceptance = Acceptance {
            qpn: endpoint.qpn,
            rq_psn: endpoint.psn,
            responder_resources: 1,
            initiator_depth: 1,
            target_ack_delay: 0,
            flow_control: true,
            rnr_retry_count: 7,
            srq: false,
            private: b"a friend".to_vec(),
        };
        let accepted = self
            .manager
            .with(|agent, now| agent.accept(now, connection, &acceptance));
        accepted.expect("it waits for an answer");
        (connection, request)
    }

    /// Takes the reply, and establishes the connection.
    fn establish(&self, to: IpAddr, connection: ConnectionId) {
        let event = self.event();
        let Event::Replied {
            connection: of,
            reply,
        } = event
        else {
            panic!("a reply was expected, not {event:?}");
        };
        assert_eq!(of, connection);
        assert_eq!(&reply.private[..8], b"a friend");
        self.ready_qp(&Endpoint {
            gid: to.into(),
            qpn: reply.qpn,
            psn: reply.sq_psn,
        });
        let ready = self
            .manager
            .with(|agent, now| agent.ready(now, connection, &[]));
        ready.expect("it was accepted");
    }

    fn send(&self, text: &[u8]) {
        self.region.write(0, text).expect("in range");
        let sges = [self.region.slice(0, text.len()).expect("in range")];
        let request = SendRequest::new(1, SendOp::Send, &sges);
        self.qp.post_send(&request).expect("posted");
        self.expect_completion(1);
    }

    fn expect_message(&self, text: &[u8]) {
        self.expect_completion(2);
        let mut got = vec![0; text.len()];
        self.region.read(0, &mut got).expect("in range");
        assert_eq!(got, text);
    }

    fn expect_completion(&self, wr_id: u64) {
        let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
        let done = done.expect("completed");
        assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
    }

    fn disconnect(&self, connection: ConnectionId) {
        let done = self
            .manager
            .with(|agent, now| agent.disconnect(now, connection, &[]));
        done.expect("it is established");
    }
}

/// Establishes a connection, sends a message, and disconnects.
fn connect_send_disconnect(active: &Side, passive: &Side) {
    let (claim, listener) = passive.listen(0);
    let connection = active.connect(passive.at, claim.service());
    let (accepted, request) = passive.accept();
    assert_eq!(&request.private[..12], b"who are you?");
    let from = request.ip.expect("Annex A11's header");
    assert_eq!(from.source_port, 1234);
    active.establish(passive.at, connection);
    let event = passive.event();
    assert!(matches!(event, Event::Established { .. }), "{event:?}");
    active.send(b"hello");
    passive.expect_message(b"hello");

    active.disconnect(connection);
    let event = passive.event();
    let asked =
        matches!(event, Event::DisconnectRequested { connection, .. } if connection == accepted);
    assert!(asked, "{event:?}");
    passive.disconnect(accepted);
    let event = active.event();
    assert!(matches!(event, Event::Disconnected { .. }), "{event:?}");
    for (side, of) in [(active, connection), (passive, accepted)] {
        assert_eq!(side.event(), Event::TimeWaitOver { connection: of });
    }
    let counters = [active, passive].map(|side| side.context.counters());
    // On a busy machine, the message is retransmitted, and its second acknowledgement may come when
    // the QP of an earlier connection is gone.
    let retransmitted = counters.iter().map(|of| of.stat(Stat::Retransmitted));
    if retransmitted.sum::<u64>() == 0 {
        for of in &counters {
            let dropped = of.iter().filter(|(name, _)| name.starts_with("drop_"));
            // Before it answers, the peer's host is asked whether anybody has the port, by a packet of
            // a version that does not exist.
            let dropped = dropped.filter(|(name, _)| name != "drop_malformed");
            let dropped: Vec<_> = dropped.filter(|(_, count)| *count > 0).collect();
            assert_eq!(dropped, []);
        }
    }
    passive.manager.stop_listening(listener);
}

#[test]
fn ends_at_two_addresses_connect() {
    connect_send_disconnect(&Side::open(address(1)), &Side::open(address(2)));
}

/// Both ends, and a third one that is not involved, share an address.
#[test]
fn ends_at_one_address_connect() {
    let [active, other, passive] = [(); 3].map(|()| Side::open(address(3)));
    let _taken = other.listen(0);
    connect_send_disconnect(&active, &passive);
    connect_send_disconnect(&passive, &active);
    assert!(other.events.try_recv().is_err());
}

/// If two processes share an address, the first one gets the requests that nobody serves, and holds
/// them for a while. If it starts to listen in this time, it accepts the request. If the other
/// process starts to listen, the peer's retransmission reaches it.
#[test]
fn a_request_waits_for_its_server() {
    for server_is_first in [true, false] {
        let mut sides = [(); 2].map(|()| Side::open(address(8)));
        // The process with the first QPN range at an address gets the requests that nobody serves.
        // The upper bits of a QP number determine the range.
        sides.sort_by_key(|side| side.endpoint().qpn.get());
        let holds = |side: &Side| side.manager.with(|agent, _| agent.held()) == 1;
        let [first, second] = &sides;
        let (server, client) = match server_is_first {
            true => (first, second),
            false => (second, first),
        };
        let claim = server.claim(0);
        let connection = client.connect(client.at, claim.service());
        let end = Instant::now() + TIMEOUT;
        while !holds(first) {
            assert!(Instant::now() < end, "the request does not come");
            std::thread::yield_now();
        }
        server
            .manager
            .listen(&claim, 8)
            .expect("nobody else listens");
        let (_, request) = server.accept();
        assert_eq!(request.qpn, client.endpoint().qpn);
        client.establish(client.at, connection);
        assert!(matches!(server.event(), Event::Established { .. }));
    }
}

/// Some process refuses the request, wherever it arrives.
#[test]
fn requests_to_a_port_without_a_listener_are_rejected() {
    let sides = [(); 2].map(|()| Side::open(address(4)));
    let (claim, listener) = sides[1].listen(0);
    sides[1].manager.stop_listening(listener);
    for side in &sides {
        let connection = side.connect(side.at, claim.service());
        let Event::Rejected {
            connection: of,
            reason,
            ..
        } = side.event()
        else {
            panic!("a refusal was expected");
        };
        assert_eq!((of, reason), (connection, RejectReason::INVALID_SERVICE_ID));
    }
}

/// Nothing has RoCEv2's port at the address. The host says so, and the request ends long before it
/// counts as unanswered.
#[test]
fn a_request_to_a_closed_port_is_refused() {
    let side = Side::open(address(60));
    let connection = side.connect(address(61), ServiceId::ip(PortSpace::Tcp, 7174));
    let refused = Event::Rejected {
        connection,
        reason: RejectReason::INVALID_SERVICE_ID,
        private: Vec::new().into(),
    };
    assert_eq!(side.event(), refused);
}

#[test]
fn a_port_has_one_listener() {
    let [first, second] = [(); 2].map(|()| Side::open(address(5)));
    let (claim, listener) = first.listen(0);
    let port = claim.port();
    let one = Addresses::One(address(5));
    for wanted in [one, Addresses::V4, Addresses::All] {
        let claim = second.manager.claim_port(PortSpace::Tcp, wanted, port);
        let error = claim.expect_err("taken");
        let text = error.to_string();
        let PortClaimError::Taken(taken) = error else {
            panic!("{error}");
        };
        assert_eq!((taken.port, taken.wanted, taken.at), (port, wanted, one));
        let holder = taken.holder.expect("a process of this user");
        assert_eq!(holder.pid, std::process::id());
        for word in [&port.to_string(), &address(5).to_string(), "this process"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    // No IPv6 address is claimed.
    let v6 = second
        .manager
        .claim_port(PortSpace::Tcp, Addresses::V6, port);
    assert_eq!(v6.expect("free").port(), port);
    // Another space has its own ports.
    let udp = second.manager.claim_port(PortSpace::Udp, None, port);
    assert_eq!(udp.expect("free").port(), port);
    let again = first.manager.listen(&claim, 1);
    assert!(matches!(again, Err(ListenError::Agent(_))), "{again:?}");
    first.manager.stop_listening(listener);
    first.manager.stop_listening(listener);
    let again = first.manager.listen(&claim, 1).expect("free again");
    assert_ne!(again, listener);
    let foreign = IpAddr::from([192, 0, 2, 1]);
    let foreign = first.manager.claim_port(PortSpace::Tcp, Some(foreign), 0);
    let refused = first.manager.listen(&foreign.expect("free"), 1);
    assert!(
        matches!(refused, Err(ListenError::Address(_))),
        "{refused:?}"
    );
}

/// The manager ends while events are queued: once dropped by its own sink, and once by another
/// thread. The context then creates another one.
#[test]
fn any_thread_may_drop_a_manager() {
    let at = address(6);
    let side = Side::open(at);
    let Side {
        context, manager, ..
    } = side;
    let again = context.connection_manager().expect("the same");
    assert!(Arc::ptr_eq(&manager, &again));
    let last = Arc::new(slot::Slot::new(Some(again)));
    let (sender, sink_calls) = channel();
    let of_sink = Arc::clone(&last);
    manager.set_sink(Box::new(move |_| {
        drop(of_sink.take());
        let _ = sender.send(());
    }));
    ask(&manager, at);
    drop(manager);
    // No process serves the port, so our own agent refuses.
    sink_calls.recv_timeout(TIMEOUT).expect("an event");
    assert!(last.take().is_none());

    let manager = context.connection_manager().expect("a new one");
    ask(&manager, at);
    drop((manager, context));
}

/// Asks for a datagram service that no process has.
fn ask(manager: &ConnectionManager, at: IpAddr) {
    let request = roce_verbs::roce_cm::DatagramRequest {
        service: ServiceId::ip(PortSpace::Udp, 1),
        source_port: 1,
        pkey: PKey::DEFAULT,
        private: Vec::new(),
    };
    let path = Path {
        local: at,
        remote: at,
    };
    let asked = manager.with(|agent, now| agent.resolve_datagram(now, path, &request));
    asked.expect("a good request");
}

/// The manager holds none of its locks while it calls the program's handler.
// trap: handler-under-lock
#[test]
fn a_sink_may_call_the_manager() {
    let at = address(7);
    let Side {
        context, manager, ..
    } = Side::open(at);
    let (sender, sink_calls) = channel();
    let caller = Arc::downgrade(&manager);
    manager.set_sink(Box::new(move |_| {
        if let Some(manager) = caller.upgrade() {
            manager.with(|_, _| ());
            manager.set_sink(Box::new(|_| ()));
        }
        let _ = sender.send(());
    }));
    ask(&manager, at);
    // No process serves the port, so our own agent refuses.
    sink_calls.recv_timeout(TIMEOUT).expect("an event");
    drop((manager, context));
}

/// A value that either of two threads takes.
mod slot {
    use std::sync::Mutex;

    pub(super) struct Slot<T>(Mutex<Option<T>>);

    impl<T> Slot<T> {
        pub(super) fn new(value: Option<T>) -> Self {
            Self(Mutex::new(value))
        }

        pub(super) fn take(&self) -> Option<T> {
            self.0.lock().expect("no panic").take()
        }
    }
}

/// A process that listens. It is killed when this value is dropped.
struct Listener {
    child: Child,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Listener {
    fn start(at: IpAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "is_a_listener", "--nocapture"])
            .env(ROLE, at.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, output }
    }

    fn wait_for_output(&mut self, what: &str) -> String {
        let mut lines = self.output.by_ref().map_while(Result::ok);
        let found = lines.find_map(|line| Some(line.split_once(what)?.1.to_owned()));
        found.expect("it says so before it ends")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Listens until its connection has ended, if the environment asks for it. Does nothing when run as
/// a test.
#[test]
fn is_a_listener() {
    let Ok(at) = std::env::var(ROLE) else {
        return;
    };
    let side = Side::open(at.parse().expect("an address"));
    let (claim, _) = side.listen(0);
    println!("PORT: {}", claim.port());
    let (connection, _) = side.accept();
    side.expect_message(b"to another process");
    let event = side.event();
    assert!(matches!(event, Event::Established { .. }), "{event:?}");
    let event = side.event();
    assert!(
        matches!(event, Event::DisconnectRequested { .. }),
        "{event:?}"
    );
    side.disconnect(connection);
    assert_eq!(side.event(), Event::TimeWaitOver { connection });
    println!("ENDED: well");
}

/// Two processes listen, and both share the address with this one. One of them is killed.
#[test]
fn processes_share_an_address() {
    let at = address(7);
    let mut listeners = [(); 3].map(|()| Listener::start(at));
    let ports = [0, 1, 2].map(|index| {
        let listener: &mut Listener = &mut listeners[index];
        listener.wait_for_output("PORT: ").parse().expect("a port")
    });
    let service = |port| ServiceId::ip(PortSpace::Tcp, port);
    let [killed, mut first, mut second] = listeners;
    drop(killed);
    for (listener, port) in [(&mut second, ports[2]), (&mut first, ports[1])] {
        let active = Side::open(at);
        let connection = active.connect(at, service(port));
        active.establish(at, connection);
        active.send(b"to another process");
        active.disconnect(connection);
        let event = active.event();
        assert!(matches!(event, Event::Disconnected { .. }), "{event:?}");
        assert_eq!(listener.wait_for_output("ENDED: "), "well");
    }
    let side = Side::open(at);
    let claim = side.manager.claim_port(PortSpace::Tcp, Some(at), ports[0]);
    assert_eq!(claim.expect("free again").port(), ports[0]);
}
