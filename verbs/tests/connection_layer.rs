//! Listeners and connections that own their QPs, over loopback.

use roce_verbs::cm::ConnectionError;
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_verbs::roce_cm::RejectReason;
use roce_verbs::settings::OpenOptions;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// An address of the loopback network that no other test uses.
fn address(last: u8) -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last))
}

struct End {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl End {
    fn open(at: IpAddr) -> Self {
        let device = Device::with_address(at).expect("loopback");
        let context = OpenOptions::new().open(&device).expect("opened");
        let (pd, cq) = (context.alloc_pd(), context.create_cq(16));
        Self { context, pd, cq }
    }

    fn qp(&self) -> QueuePair {
        let qp = self.pd.create_qp(&self.cq, &self.cq, &QpOptions::default());
        qp.expect("a QP")
    }

    fn connect(&self, to: SocketAddr, private: &[u8]) -> Result<Connection, ConnectionError> {
        Connection::connect(self.qp(), to, &ConnectOptions::default(), private)
    }

    fn listen(&self, at: IpAddr) -> (Listener, SocketAddr) {
        let listener = Listener::bind(&self.context, (at, 0).into()).expect("a free port");
        let address = (at, listener.port()).into();
        (listener, address)
    }
}

/// Two connected ends. The passive end has a receive posted.
fn connected(at: IpAddr) -> ([End; 2], [Connection; 2]) {
    let (active, passive) = (End::open(at), End::open(at));
    let (listener, address) = passive.listen(at);
    let (active, first) = {
        let client = thread::spawn(move || {
            let connection = active.connect(address, b"hello").expect("accepted");
            (active, connection)
        });
        let incoming = listener.accept_within(TIMEOUT).expect("a request");
        assert_eq!(incoming.private().trimmed(), b"hello");
        let qp = passive.qp();
        qp.to_init(Access::empty()).expect("INIT");
        let receive = RecvRequest {
            wr_id: 7,
            sges: &[],
        };
        qp.post_recv(&receive).expect("posted");
        let second = incoming
            .accept(qp, &ConnectOptions::default(), b"welcome")
            .expect("established");
        let (active, first) = client.join().expect("no panic");
        assert_eq!(first.private().trimmed(), b"welcome");
        (active, [first, second])
    };
    ([active, passive], first)
}

#[test]
fn outstanding_requests_are_flushed_when_the_peer_disconnects() {
    let (ends, [active, passive]) = connected(address(1));
    drop(active);
    assert!(passive.wait_for_end(TIMEOUT));
    let done = ends[1].cq.poll_for(TIMEOUT).expect("no overrun");
    let error = done.expect("completed").ok().expect_err("flushed");
    assert_eq!(error.status(), WcStatus::WorkRequestFlushed);
    assert_eq!(error.completion().wr_id, 7);
    assert!(error.to_string().contains("request 7"), "{error}");
    assert_eq!(passive.query().0, QpState::Err);
    assert!(
        passive.disconnect(TIMEOUT),
        "the peer has already disconnected"
    );
}

#[test]
fn disconnect_does_not_wait_for_the_peers_program() {
    let (_ends, [active, passive]) = connected(address(2));
    // The passive side makes no call, but its agent answers.
    assert!(active.disconnect(TIMEOUT));
    drop(passive);
}

#[test]
fn a_rejection_has_its_reason() {
    let at = address(3);
    let (active, passive) = (End::open(at), End::open(at));
    let (listener, address) = passive.listen(at);
    let client = thread::spawn(move || {
        let refused = active.connect(address, b"").expect_err("refused");
        let ConnectionError::Rejected { reason, private } = refused else {
            panic!("{refused}");
        };
        assert_eq!(
            (reason, private.trimmed()),
            (RejectReason::CONSUMER, &b"full"[..])
        );
        // The listener's side drops the next request without an answer, which refuses it.
        let dropped = active.connect(address, b"").expect_err("refused");
        assert!(matches!(
            dropped,
            ConnectionError::Rejected {
                reason: RejectReason::CONSUMER,
                ..
            }
        ));
    });
    let incoming = listener.accept_within(TIMEOUT).expect("a request");
    incoming.reject(b"full").expect("it waits for an answer");
    drop(listener.accept_within(TIMEOUT).expect("a request"));
    client.join().expect("no panic");
}

#[test]
fn a_port_without_a_listener_refuses() {
    let at = address(4);
    let (active, passive) = (End::open(at), End::open(at));
    let (listener, address) = passive.listen(at);
    let _still_answers = passive.context.connection_manager().expect("the same");
    drop(listener);
    let error = active.connect(address, b"").expect_err("refused");
    assert!(error.to_string().contains("no program listens"), "{error}");
}

#[test]
fn errors_name_the_wrong_argument() {
    let at = address(5);
    let end = End::open(at);
    let (_listener, address) = end.listen(at);
    let taken = Listener::bind(&end.context, address).expect_err("taken");
    assert!(matches!(taken, ConnectionError::Port(_)), "{taken}");
    let error = end.connect(address, &[0; 57]).expect_err("too long");
    assert!(error.to_string().contains("57"), "{error}");
    let datagrams = QpOptions {
        kind: QpKind::Ud,
        ..QpOptions::default()
    };
    let qp = end
        .pd
        .create_qp(&end.cq, &end.cq, &datagrams)
        .expect("a QP");
    let refused = Connection::connect(qp, address, &ConnectOptions::default(), b"");
    let error = refused.expect_err("a UD QP has no connections");
    assert!(error.to_string().contains("Ud"), "{error}");
}

/// A program that waits for several things polls descriptors, and never blocks in a call.
#[test]
fn descriptors_tell_when_a_connection_goes_on() {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use roce_verbs::cm::{Connecting, Establishing};
    use std::os::fd::AsFd;

    fn is_readable(source: &impl AsFd, patience: PollTimeout) -> bool {
        let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, patience).expect("polled") == 1
    }
    let patience = PollTimeout::from(60_000u16);
    fn pending(connecting: Connecting) -> Connecting {
        match connecting.check().expect("not refused") {
            Establishing::Pending(still) => still,
            Establishing::Established(_) => panic!("nobody has answered"),
        }
    }
    let established = |connecting: Connecting| {
        assert!(is_readable(&connecting, patience));
        match connecting.check().expect("not refused") {
            Establishing::Established(connection) => connection,
            Establishing::Pending(_) => panic!("its descriptor is readable"),
        }
    };

    let at = address(6);
    let (active, passive) = (End::open(at), End::open(at));
    let (listener, to) = passive.listen(at);
    assert!(listener.try_accept().is_none() && !is_readable(&listener, PollTimeout::ZERO));
    let options = ConnectOptions::default();
    let from = SocketAddr::new(at, 4711);
    let first = Connection::start(active.qp(), from, to, &options, b"hello").expect("asked");
    assert!(is_readable(&listener, patience));
    let incoming = listener.try_accept().expect("a request");
    assert_eq!(incoming.request().ip.expect("a port").source_port, 4711);
    let first = pending(first);
    let second = incoming
        .start_accept(passive.qp(), &options, b"welcome")
        .expect("accepted");
    let second = pending(second);
    let first = established(first);
    let second = established(second);
    assert_eq!(first.private().trimmed(), b"welcome");
    assert_eq!(second.private().trimmed(), b"hello");

    let refused = Connection::start(active.qp(), from, to, &options, &[]).expect("asked");
    assert!(is_readable(&listener, patience));
    drop(listener);
    assert!(is_readable(&refused, patience));
    let error = refused.check().expect_err("the listener has gone");
    assert!(matches!(error, ConnectionError::Rejected { .. }), "{error}");
}
