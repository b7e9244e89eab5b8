use super::*;
use crate::device::Device;
use crate::qp::{QpOptions, QueuePair};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_cm::{RejectReason, ServiceType};
use roce_stack::QpState;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

static DEVICES: Devices = Devices::new(open);

fn open(device: &Device) -> Result<Context, IdError> {
    Ok(device.open()?)
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn channel() -> Arc<Channel> {
    Arc::new(Channel::new(usize::MAX).expect("a descriptor"))
}

fn id(channel: &Arc<Channel>, kind: QpKind) -> Arc<Id> {
    let space = match kind {
        QpKind::Ud => PortSpace::Udp,
        _ => PortSpace::Tcp,
    };
    Id::new(Arc::clone(channel), space, kind).expect("randomness")
}

/// Waits for the next event and acknowledges it. It is not handled yet.
fn next(channel: &Channel) -> Event {
    loop {
        if let Some(event) = next_event(channel) {
            event.id.unacknowledged().acknowledge(1);
            return event;
        }
        DEVICES.hand_over();
        let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE).expect("it polls");
    }
}

/// As [`next`], but handles the event, which must be of this kind.
fn expect(channel: &Channel, kind: EventKind, qp: Option<&dyn IdQp>) -> Event {
    let mut event = next(channel);
    event.handle(qp);
    assert_eq!(event.kind, kind, "{event:?}");
    event
}

/// A listener at a loopback address and its channel.
fn listener(kind: QpKind) -> (Arc<Channel>, Arc<Id>, SocketAddr) {
    let channel = channel();
    let listener = id(&channel, kind);
    listener
        .bind(&DEVICES, address("127.0.0.1:0"))
        .expect("bound");
    listener.listen(&DEVICES, 0).expect("listens");
    let at = listener.addresses().0.expect("bound");
    (channel, listener, at)
}

/// An ID with a route to `to`, and its channel.
fn client(kind: QpKind, to: SocketAddr) -> (Arc<Channel>, Arc<Id>) {
    let channel = channel();
    let client = id(&channel, kind);
    let resolved = client.resolve_addr(&DEVICES, None, to).expect("in order");
    assert!(resolved.deliver());
    expect(&channel, EventKind::AddrResolved, None);
    client.resolve_route().expect("in order").deliver();
    expect(&channel, EventKind::RouteResolved, None);
    (channel, client)
}

fn qp(id: &Id) -> QueuePair {
    let device = id.device().expect("a device");
    let (pd, cq) = (device.context().alloc_pd(), device.context().create_cq(8));
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
    qp.to_init(id.qp_access()).expect("new");
    qp
}

fn options(qp: &QueuePair, private: &[u8]) -> ConnectionOptions {
    ConnectionOptions {
        private: private.to_vec(),
        ..ConnectionOptions::new(qp.qpn().get(), ServiceType::Rc)
    }
}

/// The ID of the next request, which has these private data.
fn next_request(channel: &Channel, private: &[u8]) -> Arc<Id> {
    let event = expect(channel, EventKind::ConnectRequest, None);
    assert!(event.private.starts_with(private), "{event:?}");
    event.child.expect("an ID")
}

#[test]
fn a_connection_goes_through_its_states_and_events() {
    let (requests, _listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    let own_qp = qp(&client);
    client.connect(options(&own_qp, b"hello")).expect("sent");
    assert_eq!(client.state(), State::Connecting);

    let server = next_request(&requests, b"hello");
    assert_eq!(server.state(), State::RequestReceived);
    assert!(server.is_passive() && !client.is_passive());
    assert_eq!(server.addresses().1, client.addresses().0);
    let its_qp = qp(&server);
    let accepted = server.accept(options(&its_qp, b"welcome"), Some(&its_qp));
    accepted.expect("the peer waits");

    let event = expect(&replies, EventKind::Established, Some(&own_qp));
    assert!(event.private.starts_with(b"welcome"));
    expect(&requests, EventKind::Established, Some(&its_qp));
    for qp in [&own_qp, &its_qp] {
        assert_eq!(qp.query().0, QpState::Rts);
    }

    // Each end gets one event for the end of the connection, whichever end begins.
    client.disconnect(Some(&own_qp), true).expect("connected");
    expect(&requests, EventKind::Disconnected, None);
    server.disconnect(Some(&its_qp), false).expect("connected");
    expect(&replies, EventKind::Disconnected, None);
    for qp in [&own_qp, &its_qp] {
        assert_eq!(qp.query().0, QpState::Err);
    }
}

#[test]
fn a_program_without_a_qp_at_its_id_establishes_the_connection() {
    let (requests, _listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    let own_qp = qp(&client);
    client.connect(options(&own_qp, b"")).expect("sent");
    assert!(client.qp_parameters().is_err(), "no answer yet");
    let server = next_request(&requests, b"");
    let its_qp = qp(&server);
    let accepted = server.accept(options(&its_qp, b""), Some(&its_qp));
    accepted.expect("the peer waits");
    expect(&replies, EventKind::ConnectResponse, None);
    assert_eq!(client.state(), State::ReplyReceived);
    let parameters = client.qp_parameters().expect("the peer has answered");
    assert_eq!(parameters.remote.qpn, its_qp.qpn());
    IdQp::connect(&own_qp, &parameters).expect("in INIT");
    client.establish().expect("the peer waits");
    expect(&requests, EventKind::Established, None);
    assert!(client.establish().is_err(), "once");
}

#[test]
fn a_refused_request_has_the_reason_and_the_data_of_the_peer() {
    let (requests, _listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    let own_qp = qp(&client);
    client.connect(options(&own_qp, b"")).expect("sent");
    next_request(&requests, b"").reject(b"busy").expect("waits");
    let event = expect(&replies, EventKind::Rejected, Some(&own_qp));
    assert!(event.private.starts_with(b"busy"));
    let Some(Failure::Peer(reason)) = event.failure else {
        panic!("{event:?}");
    };
    assert_eq!(reason, RejectReason::CONSUMER.0);
    assert_eq!(client.state(), State::Closed);
    assert_eq!(own_qp.query().0, QpState::Err);
}

/// A QP that the program has moved to another state.
struct Unready;

impl IdQp for Unready {
    fn connect(&self, _: &QpParameters) -> Result<(), IdError> {
        let reason = "the QP is in RESET".to_owned();
        Err(IdError::Program { errno: 22, reason })
    }

    fn fail(&self) {}
}

#[test]
fn an_end_that_can_not_use_the_reply_refuses_it() {
    let (requests, _listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    client
        .connect(options(&qp(&client), b""))
        .expect("in order");
    let server = next_request(&requests, b"");
    let its_qp = qp(&server);
    // The request still waits after an end that could not answer it.
    let refused = server.accept(options(&its_qp, b""), Some(&Unready));
    assert!(matches!(refused, Err(IdError::Program { errno: 22, .. })));
    let accepted = server.accept(options(&its_qp, b""), Some(&its_qp));
    accepted.expect("the peer waits");
    let event = expect(&replies, EventKind::ConnectError, Some(&Unready));
    let Some(Failure::Own(error)) = event.failure else {
        panic!("{event:?}");
    };
    assert_eq!(error.to_string(), "the QP is in RESET");
    expect(&requests, EventKind::Rejected, Some(&its_qp));
    assert_eq!(its_qp.query().0, QpState::Err);
}

#[test]
fn a_destroyed_listener_refuses_what_nobody_has_taken() {
    let (requests, listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    client
        .connect(options(&qp(&client), b""))
        .expect("in order");
    let mut fds = [PollFd::new(requests.as_fd(), PollFlags::POLLIN)];
    DEVICES.hand_over();
    poll(&mut fds, PollTimeout::NONE).expect("it polls");
    listener.destroy();
    assert!(requests.is_empty());
    expect(&replies, EventKind::Rejected, None);
}

#[test]
fn a_moved_listener_takes_its_requests_along() {
    let (old, listener, at) = listener(QpKind::Rc);
    let (replies, client) = client(QpKind::Rc, at);
    let own_qp = qp(&client);
    client.connect(options(&own_qp, b"")).expect("in order");
    let mut fds = [PollFd::new(old.as_fd(), PollFlags::POLLIN)];
    DEVICES.hand_over();
    poll(&mut fds, PollTimeout::NONE).expect("it polls");
    let new = channel();
    listener.move_to(Arc::clone(&new));
    assert!(old.is_empty());
    // The events of the connection arrive in the listener's channel, too.
    let server = next_request(&new, b"");
    assert!(Arc::ptr_eq(&server.channel(), &new));
    let its_qp = qp(&server);
    let accepted = server.accept(options(&its_qp, b""), Some(&its_qp));
    accepted.expect("the peer waits");
    expect(&replies, EventKind::Established, Some(&own_qp));
    expect(&new, EventKind::Established, None);
}

/// A thread of the library may have found the ID before the program destroyed it.
#[test]
fn an_event_that_comes_too_late_is_dropped() {
    let channel = channel();
    let id = id(&channel, QpKind::Rc);
    let event = || Event::new(&id, EventKind::Rejected);
    assert!(event().deliver() && !channel.is_empty());
    id.destroy();
    assert!(channel.is_empty());
    assert!(!event().deliver() && channel.is_empty());
    assert_eq!(Arc::strong_count(&id), 1, "nothing keeps it");
}

#[test]
fn each_step_has_its_state() {
    let (channel, client) = client(QpKind::Rc, address("127.0.0.1:9"));
    let refused = client.bind(&DEVICES, address("127.0.0.1:0"));
    assert_eq!(
        refused.expect_err("bound").to_string(),
        "the ID has its route resolved (rdma_resolve_route); this call is for one that is new"
    );
    let new = id(&channel, QpKind::Rc);
    for refused in [
        new.resolve_route().map(drop),
        new.connect(ConnectionOptions::new(17, ServiceType::Rc)),
        new.accept(ConnectionOptions::new(17, ServiceType::Rc), None),
        new.reject(b""),
        new.establish(),
        new.disconnect(None, false),
        new.check_listens(),
        client.set_v6_only(true),
    ] {
        assert!(matches!(refused, Err(IdError::State { .. })), "{refused:?}");
    }
    assert!(matches!(new.device(), Err(IdError::NoDevice)));
    new.listen(&DEVICES, 1).expect("new");
    assert_eq!(new.state(), State::Listening);
    let at = new.addresses().0.expect("bound");
    assert!(at.ip().is_unspecified() && at.port() != 0);
}

#[test]
fn a_failed_resolution_is_an_event() {
    let channel = channel();
    let id = id(&channel, QpKind::Rc);
    // No device has the source address.
    let source = Some(address("192.0.2.1:0"));
    let event = id.resolve_addr(&DEVICES, source, address("127.0.0.1:9"));
    let event = event.expect("in order");
    assert_eq!(event.kind, EventKind::AddrError);
    let Some(Failure::Own(IdError::NoSuchDevice(_))) = event.failure else {
        panic!("{event:?}");
    };
    assert_eq!(id.state(), State::Idle);
}

#[test]
fn options_are_checked_before_anything_is_sent() {
    let (_channel, client) = client(QpKind::Rc, address("127.0.0.1:9"));
    let most = ConnectionOptions::new(17, ServiceType::Rc).checked((3, 4));
    let most = most.expect("no number out of range");
    assert_eq!((most.responder_resources, most.initiator_depth), (3, 4));
    for wrong in [
        ConnectionOptions::new(0, ServiceType::Rc),
        ConnectionOptions::new(1 << 24, ServiceType::Rc),
        ConnectionOptions {
            initiator_depth: 200,
            ..ConnectionOptions::new(17, ServiceType::Rc)
        },
    ] {
        let refused = client.connect(wrong);
        assert!(matches!(refused, Err(IdError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(client.state(), State::RouteResolved);
    assert!(client.set_ack_timeout(31).is_ok());
    assert!(client.set_ack_timeout(32).is_err());
}

#[test]
fn an_id_joins_a_group_once() {
    let (channel, id) = client(QpKind::Ud, address("127.0.0.1:9"));
    let group = address("[::ffff:224.0.0.77]:0");
    let event = id.join(group, None).expect("not joined yet");
    assert_eq!(event.kind, EventKind::MulticastJoin);
    let again = id.join(address("224.0.0.77:0"), None);
    assert!(matches!(again, Err(IdError::Joined(_))));
    id.leave_group(group, None).expect("joined");
    let again = id.leave_group(group, None);
    assert!(matches!(again, Err(IdError::NotJoined(_))));
    assert!(id.join(address("10.0.0.1:0"), None).is_err(), "no group");
    assert!(channel.is_empty(), "not delivered");
}

#[test]
fn the_peer_decides_about_a_source_address_of_this_host_only() {
    let keeps = |own: &str, peer: &str| {
        let ip = |text: &str| text.parse().expect("an address");
        resolve::keeps_source(ip(own), ip(peer))
    };
    assert!(keeps("10.0.0.1", "10.0.0.2"));
    assert!(!keeps("0.0.0.0", "10.0.0.2"));
    assert!(keeps("127.0.0.1", "127.0.0.2"));
    assert!(keeps("127.0.0.1", "0.0.0.0"));
    assert!(keeps("127.0.0.1", "224.0.0.1"));
    assert!(!keeps("127.0.0.1", "10.0.0.2"));
}

#[test]
fn a_link_local_destination_is_at_the_interface_of_the_id() {
    let scoped = |bound: Option<&str>, to: &str| {
        let found = resolve::scoped_by(bound.map(address), address(to));
        found.map(|found| found.to_string()).ok()
    };
    let both = Some("[fe80::1%3]:9".to_owned());
    assert_eq!(scoped(Some("[fe80::2%3]:0"), "[fe80::1]:9"), both);
    assert_eq!(scoped(Some("[fe80::2%3]:0"), "[fe80::1%3]:9"), both);
    assert_eq!(scoped(None, "[fe80::1%3]:9"), both);
    assert_eq!(scoped(Some("[fe80::2%4]:0"), "[fe80::1%3]:9"), None);
}

#[test]
fn only_a_peer_that_retries_without_limit_has_a_short_rnr_timer() {
    let longest = crate::qp::RnrTimer::LONGEST;
    for retries in [0, 1, 6] {
        assert_eq!(negotiated::rnr_timer(retries), longest);
    }
    assert_eq!(negotiated::rnr_timer(7).code(), 12);
}

/// A peer that can predict the PSN can forge packets of the connection.
#[test]
fn each_connection_draws_its_psn_from_24_bits() {
    let draw = |_| id::random_psn().expect("randomness");
    let drawn: Vec<u32> = (0..64).map(draw).collect();
    assert!(drawn.iter().all(|psn| *psn < 1 << 24), "{drawn:x?}");
    // The chance that this fails is less than one in 10^30.
    let different: BTreeSet<&u32> = drawn.iter().collect();
    assert!(different.len() > 56, "{drawn:x?}");
    let used = drawn.iter().fold(0, |bits, psn| bits | psn);
    assert_eq!(used, 0xff_ffff, "{drawn:x?}");
}
