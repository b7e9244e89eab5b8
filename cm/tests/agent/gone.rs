//! Peers whose process ends without a message.

use crate::world::{Host, LONG, acceptance, at, kinds};
use roce_cm::{
    Agent, Config, ConnectionId, Duration, Event, Instant, Path, QpnRange, RejectReason, SidrStatus,
};
use roce_wire::cm::CmMessage;
use std::net::IpAddr;

const EVERY: Duration = Duration::from_secs(5);

/// As [`Host::pair`], with paths that are checked.
fn pair() -> (Host, Host) {
    let (mut client, mut server, _) = Host::pair();
    for (number, host) in [(1, &mut client), (2, &mut server)] {
        let part = QpnRange::new(number).expect("a part");
        let mut config = Config::new([number; 32], part, u64::from(number));
        config.check_every = Some(EVERY);
        host.agent = Agent::new(config);
    }
    let listener = server.agent.listen(at(0), crate::world::SERVICE, None, 10);
    listener.expect("the service is free");
    (client, server)
}

fn peers(host: &mut Host) -> Vec<(IpAddr, QpnRange)> {
    std::iter::from_fn(|| host.agent.poll_peer()).collect()
}

fn checks(host: &mut Host) -> Vec<Path> {
    std::iter::from_fn(|| host.agent.poll_check()).collect()
}

fn disconnected(connection: ConnectionId) -> Event {
    Event::Disconnected {
        connection,
        private: Vec::new().into(),
    }
}

#[test]
fn poll_peer_returns_the_process_of_the_peer() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    // The QPNs of both requests and acceptances are small: they are in the first part.
    assert_eq!(peers(&mut client), [(server.address, QpnRange::FIRST)]);
    assert_eq!(peers(&mut server), [(client.address, QpnRange::FIRST)]);
    assert!(!client.agent.has_peer_or_check() && peers(&mut client).is_empty());
}

#[test]
fn the_end_of_a_process_ends_its_connections() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.establish(at(0), &mut server);
    let other = QpnRange::new(3).expect("a part");
    client.agent.peer_gone(at(1), server.address, other);
    client
        .agent
        .peer_gone(at(1), client.address, QpnRange::FIRST);
    assert_eq!(client.events(), [], "another process has ended");
    let [to_server, to_client] = [server.address, client.address];
    for (host, id, remote) in [
        (&mut client, active, to_server),
        (&mut server, passive, to_client),
    ] {
        host.agent.peer_gone(at(2), remote, QpnRange::FIRST);
        assert_eq!(host.event(), disconnected(id));
        host.agent.peer_gone(at(2), remote, QpnRange::FIRST);
        assert_eq!(
            host.wait_until(at(500)).len(),
            0,
            "there is no peer to send to"
        );
        assert_eq!(host.events(), []);
        host.wait_until(at(600));
        assert_eq!(host.event(), Event::TimeWaitOver { connection: id });
        assert_eq!(host.agent.counters().peer_gone, 1);
        assert_eq!(host.agent.connections(), 0);
    }
}

#[test]
fn a_dreq_is_not_retransmitted_to_an_ended_process() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    assert_eq!(kinds(&client.sent()), ["DREQ"]);
    client
        .agent
        .peer_gone(at(1), server.address, QpnRange::FIRST);
    assert_eq!(client.event(), disconnected(active));
    assert!(client.wait_until(at(60_000)).is_empty());
    assert_eq!(client.agent.counters().retransmitted, 0);
}

#[test]
fn an_unaccepted_connection_is_rejected_when_the_peer_is_gone() {
    let gave_up = |connection| Event::Rejected {
        connection,
        reason: RejectReason::TIMEOUT,
        private: Vec::new().into(),
    };
    // The peer has sent its request.
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.request(at(0), &mut server);
    server
        .agent
        .peer_gone(at(1), client.address, QpnRange::FIRST);
    assert_eq!(server.event(), gave_up(passive));
    assert!(server.wait_until(at(0) + LONG).is_empty());
    assert_eq!(server.agent.connections(), 0);
    let late = server.agent.accept(at(60_001), passive, &acceptance());
    assert!(late.is_err());
    // The peer has answered.
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    client.event();
    client
        .agent
        .peer_gone(at(1), server.address, QpnRange::FIRST);
    assert_eq!(client.event(), gave_up(active));
    assert!(client.agent.ready(at(2), active, &[]).is_err());
}

/// The peer may have been ready. Its late packets may still arrive, and change nothing.
#[test]
fn an_accepted_connection_is_disconnected_when_the_peer_is_gone() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    client.event();
    client.ready(at(0), active, &[]);
    server
        .agent
        .peer_gone(at(1), client.address, QpnRange::FIRST);
    let established = Event::Established {
        connection: passive,
        private: Vec::new().into(),
    };
    assert_eq!(server.events(), [established, disconnected(passive)]);
    client.deliver(at(2), &mut server, "RTU");
    assert_eq!(server.events(), []);
    assert!(server.wait_until(at(500)).is_empty());
}

#[test]
fn forget_some_notifies_all_peers() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.establish(at(0), &mut server);
    let second = client.agent.connect(
        at(0),
        client.path_to(&server),
        &roce_cm::ConnectRequest {
            qpn: roce_cm::Qpn::from_bits(0x77),
            ..crate::world::connect_request()
        },
    );
    let second = second.expect("the request is valid");
    client.deliver(at(0), &mut server, "REQ");
    let asked = server.event().connection();
    assert!(!client.agent.forget_some(at(1), 2));
    assert!(client.agent.forget_some(at(1), 2), "there are no more");
    let sent = client.sent();
    let mut notices = kinds(&sent);
    notices.sort_unstable();
    assert_eq!(notices, ["DREQ", "REJ"]);
    server.receive_all(at(1), &sent);
    let events = server.events();
    assert!(events.iter().any(
        |event| matches!(event, Event::DisconnectRequested { connection, .. } if *connection == passive)
    ));
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Rejected { connection, .. } if *connection == asked)
        )
    );
    assert_eq!(client.events(), [], "{second:?} was forgotten, too");
}

/// Advances the time to the next deadline.
fn advance(host: &mut Host, now: &mut Instant) {
    let next = host.agent.next_timeout().expect("something is due");
    assert!(next > *now);
    *now = next;
    host.agent.handle_timeouts(next);
}

/// Two hosts with a connection. The first agent has just asked its owner for a check.
fn checked() -> (Host, Host, ConnectionId, Instant) {
    let (mut client, mut server) = pair();
    let (active, _) = client.establish(at(0), &mut server);
    let due = client.agent.next_timeout().expect("a check");
    assert_eq!(due, at(0) + EVERY);
    assert!(client.wait_until(due).is_empty(), "the peer gets no probe");
    assert_eq!(checks(&mut client), [client.path_to(&server)]);
    (client, server, active, due)
}

#[test]
fn a_peer_with_a_closed_port_that_answers_no_probe_is_gone() {
    let (mut client, server, active, mut now) = checked();
    let path = client.path_to(&server);
    client.agent.port_unreachable(now, path);
    for probe in 0..3 {
        assert!(client.sent().is_empty());
        assert_eq!(checks(&mut client), [path], "the check comes first");
        client.agent.port_unreachable(now, path);
        advance(&mut client, &mut now);
        assert_eq!(kinds(&client.sent()), ["DREQ"], "{probe}");
        assert_eq!(checks(&mut client), []);
        assert_eq!(client.events(), []);
        advance(&mut client, &mut now);
    }
    assert!(client.sent().is_empty());
    assert_eq!(client.event(), disconnected(active));
    assert!(now < at(6000), "it takes less than a second");
    let counters = *client.agent.counters();
    assert_eq!((counters.probes, counters.probe_answers), (3, 0));
    assert_eq!(counters.peer_gone, 1);
    client.wait_until(now + LONG);
    assert!(
        client.agent.next_timeout().is_none(),
        "nothing is left to check"
    );
}

/// The peer answers each probe, however many "port unreachable" messages an attacker forges. Its
/// connections do not change.
// shows: 12.9-unknown-dreq
#[test]
fn a_peer_that_answers_probes_is_not_gone() {
    let (mut client, mut server, active, mut now) = checked();
    let path = client.path_to(&server);
    for _ in 0..100 {
        for _ in 0..10 {
            client.agent.port_unreachable(now, path);
        }
        advance(&mut client, &mut now);
        client.deliver(now, &mut server, "DREQ");
        assert_eq!(server.events(), []);
        server.deliver(now, &mut client, "DREP");
        now = now + Duration::from_millis(50);
        client.agent.handle_timeouts(now);
        checks(&mut client);
    }
    assert_eq!(client.events(), []);
    let counters = *client.agent.counters();
    assert_eq!((counters.probes, counters.probe_answers), (100, 100));
    assert_eq!((counters.peer_gone, counters.unexpected), (0, 0));
    // The connection is as it was.
    client.disconnect(now, active, &[]);
    client.deliver(now, &mut server, "DREQ");
    assert!(matches!(server.event(), Event::DisconnectRequested { .. }));
}

/// A stopped process does not answer, but its port stays open, so its host sends no "port
/// unreachable".
#[test]
fn silence_without_port_unreachable_ends_nothing() {
    let (mut client, server, _, now) = checked();
    // Two "port unreachable" messages were forged.
    for _ in 0..2 {
        client.agent.port_unreachable(now, client.path_to(&server));
    }
    let asked = client.wait_until(now + Duration::from_secs(60));
    assert_eq!(asked.len(), 8, "the number of probes is bounded");
    assert_eq!(client.events(), []);
}

/// A "port unreachable" without a check, or for another path, causes no probe.
#[test]
fn port_unreachable_for_an_unchecked_path_is_ignored() {
    let (mut client, server, _, now) = checked();
    let path = client.path_to(&server);
    let stranger = Path {
        remote: IpAddr::from([10, 0, 0, 99]),
        ..path
    };
    client.agent.port_unreachable(now, stranger);
    assert!(client.sent().is_empty());
    let mut unchecked = Host::new(9);
    unchecked.agent.port_unreachable(now, path);
    assert!(unchecked.sent().is_empty());
}

/// A message that the peer sends for another reason also shows that it is alive.
#[test]
fn any_message_from_the_peer_ends_the_suspicion() {
    let (mut client, mut server, _, mut now) = checked();
    let path = client.path_to(&server);
    client.agent.port_unreachable(now, path);
    client.agent.port_unreachable(now, path);
    advance(&mut client, &mut now);
    let probe = client.sent();
    assert!(matches!(probe[0].message(), CmMessage::Dreq(_)));
    // The DREP is lost, and the peer requests a connection itself.
    let back = server.path_to(&client);
    let request = roce_cm::ConnectRequest {
        qpn: roce_cm::Qpn::from_bits(0x99),
        ..crate::world::connect_request()
    };
    server
        .agent
        .connect(now, back, &request)
        .expect("the request is valid");
    server.deliver(now, &mut client, "REQ");
    let quiet = client.wait_until(now + Duration::from_millis(900));
    assert!(quiet.is_empty(), "{:?}", kinds(&quiet));
}

/// A DREQ causes a check at once.
#[test]
fn a_dreq_causes_a_check_at_once() {
    let (mut client, mut server) = pair();
    let (active, _) = client.establish(at(0), &mut server);
    checks(&mut client);
    client.disconnect(at(1), active, &[]);
    assert_eq!(kinds(&client.sent()), ["DREQ"]);
    assert_eq!(checks(&mut client), [client.path_to(&server)]);
}

/// A client whose request nobody has answered, and the path to the silent host.
fn requested() -> (Host, Path, ConnectionId) {
    let (mut client, server) = pair();
    let path = client.path_to(&server);
    let request = crate::world::connect_request();
    let id = client.agent.connect(at(0), path, &request);
    (client, path, id.expect("the request is valid"))
}

/// Nothing has the port, so the request ends as if an agent there had found no listener, and as
/// soon as that.
#[test]
fn a_request_to_a_closed_port_is_refused_within_two_seconds() {
    let (mut client, path, connection) = requested();
    assert_eq!(kinds(&client.sent()), ["REQ"]);
    let mut now = at(0);
    for repeated in 0..3 {
        assert_eq!(checks(&mut client), [path], "{repeated}");
        assert_eq!(client.events(), []);
        client.agent.port_unreachable(now, path);
        advance(&mut client, &mut now);
        if repeated < 2 {
            assert!(client.sent().is_empty(), "the check comes first");
            advance(&mut client, &mut now);
            assert_eq!(kinds(&client.sent()), ["REQ"], "{repeated}");
        }
    }
    assert_eq!(kinds(&client.sent()), ["REJ"]);
    let refused = Event::Rejected {
        connection,
        reason: RejectReason::INVALID_SERVICE_ID,
        private: Vec::new().into(),
    };
    assert_eq!(client.event(), refused);
    assert!(now < at(2000), "{now:?}");
    client.wait_until(now + LONG);
    assert!(client.agent.next_timeout().is_none());
}

/// A lookup ends as if the service were unknown there.
#[test]
fn a_lookup_at_a_closed_port_is_refused_within_two_seconds() {
    let (mut client, server) = pair();
    let path = client.path_to(&server);
    let request = crate::world::datagram_request();
    let lookup = client.agent.resolve_datagram(at(0), path, &request);
    let connection = lookup.expect("the request is valid");
    let mut now = at(0);
    for _ in 0..5 {
        client.agent.port_unreachable(now, path);
        assert_eq!(client.events(), []);
        advance(&mut client, &mut now);
    }
    let refused = Event::DatagramRejected {
        connection,
        status: SidrStatus::SERVICE_ID_NOT_SUPPORTED,
        private: Vec::new().into(),
    };
    assert_eq!(client.event(), refused);
    assert_eq!(client.agent.connections(), 0);
}

/// The program at the other end has the request, and its owner decides for long. An attacker forges
/// as many "port unreachable" messages as it likes.
#[test]
fn port_unreachable_does_not_end_a_request_that_an_agent_has() {
    let (mut client, mut server) = pair();
    let (active, passive) = client.request(at(0), &mut server);
    let path = client.path_to(&server);
    let mut now = at(0);
    for _ in 0..100 {
        for _ in 0..10 {
            client.agent.port_unreachable(now, path);
        }
        advance(&mut client, &mut now);
        let sent = client.sent();
        server.receive_all(now, &sent);
        let answers = server.sent();
        client.receive_all(now, &answers);
        checks(&mut client);
        assert_eq!(client.events(), []);
    }
    server.accept(now, passive);
    server.deliver(now, &mut client, "REP");
    let replied = client.event();
    assert!(matches!(replied, Event::Replied { connection, .. } if connection == active));
}

/// A server that starts while its host refuses packets gets the request half a second later.
#[test]
fn a_server_that_starts_late_gets_the_request() {
    let (mut client, mut server) = pair();
    let path = client.path_to(&server);
    let request = crate::world::connect_request();
    let id = client.agent.connect(at(0), path, &request);
    let connection = id.expect("the request is valid");
    let lost = client.sent();
    assert_eq!(kinds(&lost), ["REQ"]);
    client.agent.port_unreachable(at(0), path);
    let sent = client.wait_until(at(600));
    assert_eq!(kinds(&sent), ["REQ"]);
    server.receive_all(at(600), &sent);
    let passive = server.event().connection();
    server.accept(at(600), passive);
    server.deliver(at(600), &mut client, "REP");
    let replied = client.event();
    assert!(matches!(replied, Event::Replied { connection: of, .. } if of == connection));
}

/// "Port unreachable" once, and then silence: the host may have been restarted.
#[test]
fn a_single_port_unreachable_does_not_end_a_request() {
    let (mut client, path, connection) = requested();
    client.agent.port_unreachable(at(0), path);
    client.wait_until(at(20_000));
    assert_eq!(client.events(), []);
    client.wait_until(at(40_000));
    assert_eq!(client.event(), Event::Unreachable { connection });
}

/// No packet reaches the host. Connections may outlive that.
#[test]
fn an_unreachable_host_ends_requests_only() {
    let (mut client, mut server) = pair();
    client.establish(at(0), &mut server);
    let path = client.path_to(&server);
    let request = roce_cm::ConnectRequest {
        qpn: roce_cm::Qpn::from_bits(0x99),
        ..crate::world::connect_request()
    };
    let second = client.agent.connect(at(1), path, &request);
    let connection = second.expect("the request is valid");
    client.agent.host_unreachable(at(2), path);
    assert_eq!(client.event(), Event::Unreachable { connection });
    client.agent.host_unreachable(at(3), path);
    assert_eq!(client.events(), []);
    assert_eq!(client.agent.connections(), 1);
}
