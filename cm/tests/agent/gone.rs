//! Peers whose process ends without a message.

use crate::world::{Host, LONG, acceptance, at, kinds};
use roce_cm::{
    Agent, Config, ConnectionId, Duration, Event, Instant, Path, QpnRange, RejectReason,
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
    listener.expect("nobody else listens");
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
fn each_side_says_which_process_its_peer_is() {
    let (mut client, mut server, _) = Host::pair();
    client.join(at(0), &mut server);
    // The QPNs of both requests and acceptances are small: they are in the first part.
    assert_eq!(peers(&mut client), [(server.address, QpnRange::FIRST)]);
    assert_eq!(peers(&mut server), [(client.address, QpnRange::FIRST)]);
    assert!(!client.agent.wants_owner() && peers(&mut client).is_empty());
}

#[test]
fn the_end_of_a_process_ends_its_connections() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.join(at(0), &mut server);
    let other = QpnRange::new(3).expect("a part");
    client.agent.peer_gone(at(1), server.address, other);
    client
        .agent
        .peer_gone(at(1), client.address, QpnRange::FIRST);
    assert_eq!(client.events(), [], "that is another process");
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
            "nobody is there to hear it"
        );
        assert_eq!(host.events(), []);
        host.wait_until(at(600));
        assert_eq!(host.event(), Event::TimeWaitOver { connection: id });
        assert_eq!(host.agent.counters().peer_gone, 1);
        assert_eq!(host.agent.connections(), 0);
    }
}

/// A DREQ is not repeated to a process that has ended.
#[test]
fn the_end_of_a_process_is_the_answer_to_a_dreq() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.join(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    assert_eq!(kinds(&client.sent()), ["DREQ"]);
    client
        .agent
        .peer_gone(at(1), server.address, QpnRange::FIRST);
    assert_eq!(client.event(), disconnected(active));
    assert!(client.wait_until(at(60_000)).is_empty());
    assert_eq!(client.agent.counters().repeated, 0);
}

#[test]
fn what_was_not_accepted_is_as_if_the_peer_gave_up() {
    let gave_up = |connection| Event::Rejected {
        connection,
        reason: RejectReason::TIMEOUT,
        private: Vec::new().into(),
    };
    // The peer has sent its request.
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.ask(at(0), &mut server);
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
    let (active, passive) = client.ask(at(0), &mut server);
    server.accept(at(0), passive);
    server.hand(at(0), &mut client, "REP");
    client.event();
    client
        .agent
        .peer_gone(at(1), server.address, QpnRange::FIRST);
    assert_eq!(client.event(), gave_up(active));
    assert!(client.agent.ready(at(2), active, &[]).is_err());
}

/// The peer may have been ready. Its late packets may still arrive, and change nothing.
#[test]
fn what_was_accepted_is_over() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.ask(at(0), &mut server);
    server.accept(at(0), passive);
    server.hand(at(0), &mut client, "REP");
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
    client.hand(at(2), &mut server, "RTU");
    assert_eq!(server.events(), []);
    assert!(server.wait_until(at(500)).is_empty());
}

#[test]
fn an_owner_that_leaves_tells_all_peers() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.join(at(0), &mut server);
    let second = client.agent.connect(
        at(0),
        client.path_to(&server),
        &roce_cm::ConnectRequest {
            qpn: roce_cm::Qpn::from_bits(0x77),
            ..crate::world::connect_request()
        },
    );
    let second = second.expect("it fits");
    client.hand(at(0), &mut server, "REQ");
    let asked = server.event().connection();
    assert!(!client.agent.forget_some(at(1), 2));
    assert!(client.agent.forget_some(at(1), 2), "there are no more");
    let sent = client.sent();
    let mut told = kinds(&sent);
    told.sort_unstable();
    assert_eq!(told, ["DREQ", "REJ"]);
    server.take_all(at(1), &sent);
    let events = server.events();
    assert!(events.iter().any(
        |event| matches!(event, Event::DisconnectRequested { connection, .. } if *connection == passive)
    ));
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Rejected { connection, .. } if *connection == asked)
        )
    );
    assert_eq!(client.events(), [], "{second:?} is of no interest any more");
}

/// Lets time pass until something is due.
fn pass(host: &mut Host, now: &mut Instant) {
    let next = host.agent.next_timeout().expect("something is due");
    assert!(next > *now);
    *now = next;
    host.agent.handle_timeouts(next);
}

/// Two hosts with a connection. The first host has just been asked to check.
fn checked() -> (Host, Host, ConnectionId, Instant) {
    let (mut client, mut server) = pair();
    let (active, _) = client.join(at(0), &mut server);
    let due = client.agent.next_timeout().expect("a check");
    assert_eq!(due, at(0) + EVERY);
    assert!(client.wait_until(due).is_empty(), "the peer is not asked");
    assert_eq!(checks(&mut client), [client.path_to(&server)]);
    (client, server, active, due)
}

#[test]
fn a_host_that_refuses_and_is_silent_is_gone() {
    let (mut client, server, active, mut now) = checked();
    let path = client.path_to(&server);
    client.agent.port_unreachable(now, path);
    for question in 0..3 {
        assert!(client.sent().is_empty());
        assert_eq!(checks(&mut client), [path], "the check comes first");
        client.agent.port_unreachable(now, path);
        pass(&mut client, &mut now);
        assert_eq!(kinds(&client.sent()), ["DREQ"], "{question}");
        assert_eq!(checks(&mut client), []);
        assert_eq!(client.events(), []);
        pass(&mut client, &mut now);
    }
    assert!(client.sent().is_empty());
    assert_eq!(client.event(), disconnected(active));
    assert!(now < at(6000), "it takes less than a second");
    let counters = *client.agent.counters();
    assert_eq!((counters.questions, counters.answers), (3, 0));
    assert_eq!(counters.peer_gone, 1);
    client.wait_until(now + LONG);
    assert!(
        client.agent.next_timeout().is_none(),
        "nothing is left to check"
    );
}

/// Whatever an attacker forges, the peer answers, and its state does not change.
// shows: 12.9-unknown-dreq
#[test]
fn a_peer_that_answers_is_not_gone() {
    let (mut client, mut server, active, mut now) = checked();
    let path = client.path_to(&server);
    for _ in 0..100 {
        for _ in 0..10 {
            client.agent.port_unreachable(now, path);
        }
        pass(&mut client, &mut now);
        client.hand(now, &mut server, "DREQ");
        assert_eq!(server.events(), []);
        server.hand(now, &mut client, "DREP");
        now = now + Duration::from_millis(50);
        client.agent.handle_timeouts(now);
        checks(&mut client);
    }
    assert_eq!(client.events(), []);
    let counters = *client.agent.counters();
    assert_eq!((counters.questions, counters.answers), (100, 100));
    assert_eq!((counters.peer_gone, counters.unexpected), (0, 0));
    // The connection is as it was.
    client.disconnect(now, active, &[]);
    client.hand(now, &mut server, "DREQ");
    assert!(matches!(server.event(), Event::DisconnectRequested { .. }));
}

/// A stopped process does not answer, but its port stays open, so its host sends no "port
/// unreachable".
#[test]
fn silence_alone_ends_nothing() {
    let (mut client, server, _, now) = checked();
    // Two "port unreachable" messages were forged.
    for _ in 0..2 {
        client.agent.port_unreachable(now, client.path_to(&server));
    }
    let asked = client.wait_until(now + Duration::from_secs(60));
    assert_eq!(asked.len(), 8, "it is not asked for ever");
    assert_eq!(client.events(), []);
}

/// A "port unreachable" without a check, or for another path, causes no probe.
#[test]
fn refusals_of_strangers_mean_nothing() {
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
fn any_message_of_the_peer_ends_the_suspicion() {
    let (mut client, mut server, _, mut now) = checked();
    let path = client.path_to(&server);
    client.agent.port_unreachable(now, path);
    client.agent.port_unreachable(now, path);
    pass(&mut client, &mut now);
    let question = client.sent();
    assert!(matches!(question[0].message(), CmMessage::Dreq(_)));
    // The DREP is lost, and the peer requests a connection itself.
    let back = server.path_to(&client);
    let request = roce_cm::ConnectRequest {
        qpn: roce_cm::Qpn::from_bits(0x99),
        ..crate::world::connect_request()
    };
    server.agent.connect(now, back, &request).expect("it fits");
    server.hand(now, &mut client, "REQ");
    let quiet = client.wait_until(now + Duration::from_millis(900));
    assert!(quiet.is_empty(), "{:?}", kinds(&quiet));
}

/// A DREQ causes a check at once.
#[test]
fn an_end_that_waits_for_its_answer_is_checked_at_once() {
    let (mut client, mut server) = pair();
    let (active, _) = client.join(at(0), &mut server);
    assert_eq!(checks(&mut client), []);
    client.disconnect(at(1), active, &[]);
    assert_eq!(kinds(&client.sent()), ["DREQ"]);
    assert_eq!(checks(&mut client), [client.path_to(&server)]);
}
