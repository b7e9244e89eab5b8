//! Connections end, whichever side requests it.

use crate::world::{Host, LONG, acceptance, assert_wrong_state, at, kinds, padded};
use roce_cm::{CmError, Duration, Event, Qpn, RejectReason};
use roce_wire::cm::{CmMad, CmMessage};

// shows: 12.9-dreq, 12.9-time-wait, 12.9-time-wait-length
#[test]
fn a_dreq_and_a_drep_end_a_connection() {
    for active_ends in [true, false] {
        let (mut client, mut server, _) = Host::pair();
        let (active, passive) = client.establish(at(0), &mut server);
        let (mut first, mut second) = ((client, active), (server, passive));
        if !active_ends {
            core::mem::swap(&mut first, &mut second);
        }
        let ((ending, id), (ended, other_id)) = (&mut first, &mut second);
        ending.disconnect(at(10), *id, b"bye");
        assert_wrong_state(ending.agent.disconnect(at(10), *id, b"bye"));
        ending.deliver(at(10), ended, "DREQ");
        let requested = Event::DisconnectRequested {
            connection: *other_id,
            private: padded(b"bye", 220).into(),
        };
        assert_eq!(ended.event(), requested);
        ended.disconnect(at(11), *other_id, b"well");
        ended.deliver(at(11), ending, "DREP");
        let disconnected = Event::Disconnected {
            connection: *id,
            private: padded(b"well", 224).into(),
        };
        assert_eq!(ending.event(), disconnected);
        // Twice 4.096 µs × 2^16.
        for (host, id) in [(ending, *id), (ended, *other_id)] {
            host.wait_until(at(500));
            assert_eq!(host.events(), []);
            host.wait_until(at(600));
            assert_eq!(host.event(), Event::TimeWaitOver { connection: id });
            assert_eq!(host.agent.connections(), 0);
            let gone = host.agent.disconnect(at(600), id, &[]);
            assert_eq!(gone, Err(CmError::UnknownConnection));
        }
    }
}

// shows: 12.9-repeated-dreq, 12.9-repeat
#[test]
fn a_repeated_dreq_gets_the_same_drep() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    let dreq = client.deliver(at(0), &mut server, "DREQ");
    server.event();
    server.receive(at(1), &dreq);
    assert_eq!(server.events(), [], "the owner already has the event");
    server.disconnect(at(2), passive, b"well");
    let lost = server.sent();
    server.receive(at(3), &dreq);
    assert_eq!(server.sent()[0].mad, lost[0].mad);
    // After the time wait, an agent answers a DREQ for a connection that it does not know.
    server.wait_until(at(1600));
    assert_eq!(server.agent.connections(), 0);
    let again = client.wait_until(at(1700));
    assert_eq!(kinds(&again), ["DREQ"]);
    server.receive_all(at(1700), &again);
    server.deliver(at(1700), &mut client, "DREP");
    assert!(matches!(client.event(), Event::Disconnected { .. }));
}

// shows: 12.9-unknown-dreq
#[test]
fn a_dreq_for_an_unknown_connection_gets_a_drep() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    let mut restarted = Host::new(2);
    let dreq = client.deliver(at(0), &mut restarted, "DREQ");
    let drep = restarted.deliver(at(0), &mut client, "DREP");
    assert_eq!(drep.parsed().transaction, dreq.parsed().transaction);
    assert!(matches!(client.event(), Event::Disconnected { .. }));
    assert_eq!(restarted.agent.connections(), 0);
}

// shows: 12.9-crossing
#[test]
fn both_sides_may_disconnect_at_once() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    server.disconnect(at(0), passive, &[]);
    let (from_client, from_server) = (client.sent(), server.sent());
    client.receive_all(at(1), &from_server);
    server.receive_all(at(1), &from_client);
    for (host, id) in [(&mut client, active), (&mut server, passive)] {
        let event = host.event();
        assert!(matches!(event, Event::Disconnected { connection, .. } if connection == id));
        assert_eq!(kinds(&host.sent()), ["DREP"]);
        host.wait_until(at(0) + LONG);
        assert_eq!(host.event(), Event::TimeWaitOver { connection: id });
        assert_eq!(host.agent.connections(), 0);
    }
}

// shows: 12.9-repeat
#[test]
fn a_connection_ends_after_unanswered_dreqs() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    let sent = client.wait_until(at(0) + LONG);
    assert_eq!(kinds(&sent), ["DREQ"; 16]);
    let disconnected = Event::Disconnected {
        connection: active,
        private: Vec::new().into(),
    };
    let over = Event::TimeWaitOver { connection: active };
    assert_eq!(client.events(), [disconnected, over]);
    assert_eq!(client.agent.connections(), 0);
}

/// The peer's agent knows of the DREQ, and its owner never answers.
#[test]
fn an_owner_that_ignores_a_dreq_delays_its_peer_for_a_bounded_time() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    client.deliver(at(0), &mut server, "DREQ");
    let event = server.event();
    let is_requested =
        matches!(event, Event::DisconnectRequested { connection, .. } if connection == passive);
    assert!(is_requested, "{event:?}");
    // The time that `Agent::disconnect` documents.
    client.wait_until(at(0) + Duration::from_secs(25));
    assert_eq!(client.events(), []);
    let sent = client.wait_until(at(0) + Duration::from_secs(27));
    assert_eq!(kinds(&sent), Vec::<&str>::new());
    let events = client.events();
    assert!(
        matches!(events[0], Event::Disconnected { .. }),
        "{events:?}"
    );
}

// shows: 12.9-dreq-before-rtu
#[test]
fn a_dreq_before_the_rtu_establishes_the_connection_first() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    client.event();
    client.ready(at(0), active, &[]);
    client.sent();
    client.disconnect(at(0), active, &[]);
    client.deliver(at(0), &mut server, "DREQ");
    let events = server.events();
    assert!(
        matches!(
            events[..],
            [Event::Established { .. }, Event::DisconnectRequested { .. }]
        ),
        "{events:?}"
    );
    assert_eq!(server.agent.next_timeout(), None);
}

// shows: 12.6.10-remote-qpn
#[test]
fn a_dreq_for_another_qp_is_dropped() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    let mut sent = client.sent();
    let mad = sent[0].parsed();
    let CmMessage::Dreq(mut dreq) = mad.message else {
        panic!("{sent:?}");
    };
    let right = dreq.remote_qpn;
    assert_eq!(right, acceptance().qpn);
    dreq.remote_qpn = Qpn::from_bits(right.get() + 1);
    let message = CmMessage::Dreq(dreq);
    let wrong = CmMad { message, ..mad }.to_bytes();
    sent[0].mad = wrong;
    server.receive(at(0), &sent[0]);
    assert_eq!((server.events(), server.sent().len()), (vec![], 0));
}

#[test]
fn forget_ends_a_connection_in_each_state() {
    // Established.
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.establish(at(0), &mut server);
    client.agent.forget(at(0), active);
    client.deliver(at(0), &mut server, "DREQ");
    server.event();
    // After the peer's DREQ.
    server.agent.forget(at(0), passive);
    server.deliver(at(0), &mut client, "DREP");
    // Established, and then ended by the other side.
    let (mut client2, mut server2, _) = Host::pair();
    let (active, passive) = client2.establish(at(0), &mut server2);
    server2.disconnect(at(0), passive, &[]);
    client2.agent.forget(at(0), active);
    let crossing = client2.sent();
    server2.deliver(at(0), &mut client2, "DREQ");
    server2.receive_all(at(0), &crossing);
    server2.agent.forget(at(0), passive);
    // Accepted.
    let (mut client3, mut server3, _) = Host::pair();
    let (_, passive) = client3.request(at(0), &mut server3);
    server3.accept(at(0), passive);
    server3.deliver(at(0), &mut client3, "REP");
    server3.agent.forget(at(0), passive);
    client3.event();
    server3.deliver(at(0), &mut client3, "REJ");
    let event = client3.event();
    assert!(
        matches!(event, Event::Rejected { reason, .. } if reason == RejectReason::CONSUMER),
        "{event:?}"
    );
    for mut host in [client, server, client2, server2, client3, server3] {
        host.wait_until(at(0) + LONG);
        assert_eq!((host.events(), host.agent.connections()), (vec![], 0));
    }
}
