//! Connections that one side knows and the other has lost.

use crate::world::{Host, LONG, SERVICE, Sent, acceptance, at, connect_request, kinds};
use roce_cm::{Agent, Config, ConnectionId, Event, Instant, Qpn, QpnRange, RejectReason};
use roce_wire::cm::{CmMad, CmMessage};
use std::net::IpAddr;

/// The reason of the REJ that the host sends.
#[track_caller]
fn refused(host: &mut Host) -> RejectReason {
    match host.sent().first().map(|sent| sent.parsed().message) {
        Some(CmMessage::Rej(rej)) => rej.reason,
        other => panic!("{other:?}"),
    }
}

/// The client's host after a restart. Its agent knows no connection, and requests one with the QPN
/// that the client had. An attacker that sends from the client's address does the same.
fn restarted_client() -> Host {
    let mut restarted = Host::new(1);
    let part = QpnRange::new(1).expect("a part");
    restarted.agent = Agent::new(Config::new([77; 32], part, 1));
    restarted
}

/// Requests a connection with the client's QPN, and delivers the REQ.
#[track_caller]
fn request_again(now: Instant, from: &mut Host, to: &mut Host) {
    let path = from.path_to(to);
    let requested = from.agent.connect(now, path, &connect_request());
    requested.expect("the request is valid");
    from.deliver(now, to, "REQ");
}

/// The first request of a restarted client is rejected and ends the old connection. The client
/// repeats the request, which succeeds after less than a second. Its owner does not notice.
// shows: 12.9-stale-req, 12.9-stale-ended
#[test]
fn a_restarted_peer_ends_the_old_connection_and_can_connect() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.establish(at(0), &mut server);
    let mut restarted = restarted_client();
    request_again(at(1), &mut restarted, &mut server);
    let sent = server.sent();
    assert_eq!(kinds(&sent), ["REJ", "DREQ"]);
    restarted.receive_all(at(1), &sent);
    let stale = RejectReason::STALE_CONNECTION;
    assert_eq!((restarted.events(), server.events()), (vec![], vec![]));
    restarted.deliver(at(1), &mut server, "DREP");
    assert!(
        matches!(server.event(), Event::Disconnected { connection, .. } if connection == passive)
    );
    let counters = server.agent.counters();
    assert_eq!((counters.probes, counters.probe_answers), (1, 1));
    // During time wait, the QP is still rejected. After it, the QP is accepted.
    request_again(at(2), &mut restarted_client(), &mut server);
    assert_eq!(refused(&mut server), stale);
    server.wait_until(at(600));
    assert_eq!(
        server.event(),
        Event::TimeWaitOver {
            connection: passive
        }
    );
    let again = restarted.wait_until(at(900));
    assert_eq!(kinds(&again), ["REQ"]);
    server.receive(at(900), &again[0]);
    assert!(matches!(server.event(), Event::Requested { .. }));
}

/// A request that is always rejected as stale is repeated three times, and then reported as
/// rejected. An answer in between is like any other.
#[test]
fn a_request_that_stays_stale_is_rejected_in_the_end() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.establish(at(0), &mut server);
    let mut restarted = restarted_client();
    request_again(at(0), &mut restarted, &mut server);
    let mut now = at(0);
    for pause in [805, 1610, 3221] {
        let rej = server.sent().remove(0);
        restarted.receive(now, &rej);
        assert_eq!(restarted.events(), []);
        let due = restarted.agent.next_timeout().expect("a pause");
        assert_eq!(due.saturating_duration_since(now).as_millis(), pause);
        now = due;
        let again = restarted.wait_until(now);
        assert_eq!(kinds(&again), ["REQ"]);
        server.receive(now, &again[0]);
    }
    let rej = server.sent().remove(0);
    restarted.receive(now, &rej);
    let event = restarted.event();
    let stale = RejectReason::STALE_CONNECTION;
    assert!(matches!(event, Event::Rejected { reason, .. } if reason == stale));
    assert_eq!(restarted.agent.connections(), 0);
    assert_eq!(server.events(), []);
    server.disconnect(now, passive, &[]);
}

/// Each probe or its answer may be lost. A later probe ends the connection.
// shows: 12.9-stale-ended
#[test]
fn a_lost_probe_is_repeated() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let mut restarted = restarted_client();
    request_again(at(0), &mut restarted, &mut server);
    server.sent();
    let probes = server.wait_until(at(400));
    assert_eq!(kinds(&probes), ["DREQ"; 2]);
    restarted.receive(at(400), &probes[1]);
    restarted.deliver(at(400), &mut server, "DREP");
    assert!(matches!(server.event(), Event::Disconnected { .. }));
    assert!(server.wait_until(at(0) + LONG).is_empty());
}

/// An attacker that can send from the address of a connection's peer, but knows no communication
/// ID, cannot end the connection with a REQ.
// shows: 12.9-stale-req, 12.6.10-remote-qpn
#[test]
fn a_forged_req_does_not_end_a_connection_of_a_live_peer() {
    for attacks_server in [true, false] {
        let (mut client, mut server, _) = Host::pair();
        let (active, _) = client.establish(at(0), &mut server);
        let (victim, peer, peers_qpn) = match attacks_server {
            true => (&mut server, &mut client, connect_request().qpn),
            false => (&mut client, &mut server, acceptance().qpn),
        };
        let forged = forged_req(peer, victim, peers_qpn);
        for attempt in 0..10 {
            let now = at(attempt * 10_000);
            victim.receive(now, &forged);
            // The network takes both the REJ and the probes to the true peer.
            let sent = victim.wait_until(at(attempt * 10_000 + 9_999));
            peer.receive_all(now, &sent);
            assert_eq!((victim.events(), peer.events()), (vec![], vec![]));
            assert_eq!(peer.sent().len(), 0);
            assert_eq!(
                kinds(&sent),
                ["REJ", "DREQ", "DREQ", "DREQ", "DREQ", "DREQ"]
            );
        }
        assert_eq!(victim.agent.next_timeout(), None);
        // The connection is as it was.
        client.disconnect(at(200_000), active, &[]);
        client.deliver(at(200_000), &mut server, "DREQ");
        assert!(matches!(server.event(), Event::DisconnectRequested { .. }));
    }
}

/// A REQ from the address of `from` with this QPN, made by an attacker that does not know the
/// agent's state.
fn forged_req(from: &Host, to: &Host, qpn: Qpn) -> Sent {
    let mut attacker = restarted_client();
    attacker.address = from.address;
    let request = roce_cm::ConnectRequest {
        qpn,
        ..connect_request()
    };
    let path = attacker.path_to(to);
    let requested = attacker.agent.connect(at(0), path, &request);
    requested.expect("the request is valid");
    attacker.sent().remove(0)
}

/// Many forged requests cause no more probes than one.
#[test]
fn the_number_of_probes_is_bounded() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let forged = forged_req(&client, &server, connect_request().qpn);
    for ms in 0..3000 {
        server.agent.handle_timeouts(at(ms));
        server.receive(at(ms), &forged);
    }
    assert_eq!(server.agent.counters().probes, 5);
}

/// The reply to a probe carries both communication IDs, and counts only while the agent waits for
/// it.
// shows: 12.9-peer-only
#[test]
fn only_the_peer_can_answer_a_probe() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let forged = forged_req(&client, &server, connect_request().qpn);
    server.receive(at(0), &forged);
    let probe = server.sent().remove(1);
    let mut restarted = restarted_client();
    restarted.receive(at(0), &probe);
    let drep = restarted.sent().remove(0);
    for at_byte in [24, 28] {
        let mut guessed = drep.clone();
        guessed.mad[at_byte] ^= 1;
        server.receive(at(0), &guessed);
    }
    let mut elsewhere = drep.clone();
    elsewhere.path.local = IpAddr::from([10, 0, 0, 9]);
    server.receive(at(0), &elsewhere);
    server.wait_until(at(5000));
    server.receive(at(5000), &drep);
    assert_eq!(server.events(), []);
    assert_eq!(server.agent.counters().probe_answers, 0);
    server.receive(at(5000), &forged);
    server.receive(at(5000), &drep);
    assert!(matches!(server.event(), Event::Disconnected { .. }));
}

/// The QPN is that of a connection, but the REQ comes from another address, or its GID is another
/// than its source address. Neither is a hint.
// shows: 12.6.7.2-invalid-gid
#[test]
fn a_req_from_another_address_causes_no_probe() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let attacker = Host::new(9);
    let qpn = connect_request().qpn;
    // The GID and the source address are those of different hosts.
    for (source, gid) in [(&attacker, &client), (&client, &attacker)] {
        let mut forged = forged_req(gid, &server, qpn);
        forged.path.local = source.address;
        server.receive(at(0), &forged);
        assert_eq!(refused(&mut server), RejectReason::INVALID_GID);
    }
    // From the attacker's own address: a request like any other.
    server.receive(at(0), &forged_req(&attacker, &server, qpn));
    assert!(matches!(server.event(), Event::Requested { .. }));
    assert_eq!(server.agent.counters().probes, 0);
}

/// A connection that is not established yet is not probed: its peer still has to answer.
#[test]
fn a_connection_without_an_rtu_is_not_probed() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    server.receive(at(1), &forged_req(&client, &server, connect_request().qpn));
    assert_eq!(kinds(&server.sent()), ["REJ"]);
    assert_eq!(server.agent.counters().probes, 0);
}

// shows: 12.9-same-id
#[test]
fn a_req_with_a_communication_id_in_use_is_rejected() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    client
        .agent
        .connect(at(0), path, &connect_request())
        .expect("the request is valid");
    let mut req = client.deliver(at(0), &mut server, "REQ");
    server.event();
    let mad = req.parsed();
    let CmMessage::Req(mut other) = mad.message else {
        panic!("{req:?}");
    };
    other.qpn = Qpn::from_bits(0x12);
    let message = CmMessage::Req(other);
    let transaction = mad.transaction + 1;
    let other = CmMad {
        transaction,
        message,
    };
    let other = other.to_bytes();
    req.mad = other;
    server.receive(at(1), &req);
    assert_eq!(refused(&mut server), RejectReason::STALE_CONNECTION);
    assert_eq!((server.events(), server.agent.connections()), (vec![], 1));
}

/// A server after a restart, and the request of a client that still has a connection with the QP
/// that the server now uses for another one. The server has accepted. Returns the IDs at both ends.
fn accept_after_restart(client: &mut Host) -> (Host, ConnectionId, ConnectionId) {
    let mut restarted = Host::new(2);
    let part = QpnRange::new(2).expect("a part");
    restarted.agent = Agent::new(Config::new([78; 32], part, 1));
    let listener = restarted.agent.listen(at(0), SERVICE, None, 1);
    listener.expect("the service is free");
    let path = client.path_to(&restarted);
    let mut request = connect_request();
    request.qpn = Qpn::from_bits(0x12);
    let active = client.agent.connect(at(1), path, &request);
    client.deliver(at(1), &mut restarted, "REQ");
    let passive = restarted.event().connection();
    restarted.accept(at(1), passive);
    (restarted, active.expect("the request is valid"), passive)
}

/// If the old connection's peer does not deny that it has the connection, the reply is rejected in
/// the end.
// shows: 12.9-stale-rep
#[test]
fn a_rep_with_a_qp_in_use_is_rejected() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let (mut restarted, active, passive) = accept_after_restart(&mut client);
    let rep = restarted.sent().remove(0);
    for n in 0..3 {
        client.receive(at(1), &rep);
        assert_eq!(client.events(), [], "{n}");
    }
    let probes = client.sent();
    assert_eq!(kinds(&probes), ["DREQ"], "one for all");
    server.receive_all(at(1), &probes);
    assert_eq!((server.sent().len(), server.events()), (0, vec![]));
    client.receive(at(1), &rep);
    client.deliver(at(1), &mut restarted, "REJ");
    let stale = RejectReason::STALE_CONNECTION;
    for (host, id) in [(&mut client, active), (&mut restarted, passive)] {
        let event = host.event();
        assert!(
            matches!(event, Event::Rejected { connection, reason, .. } if (connection, reason) == (id, stale)),
            "{event:?}"
        );
    }
}

/// A server that was killed and started again draws a QPN that its predecessor had. The client ends
/// the old connection, and takes the reply when the server repeats it.
#[test]
fn a_restarted_server_can_accept_with_the_qp_of_an_old_connection() {
    let (mut client, mut server, _) = Host::pair();
    let (old, _) = client.establish(at(0), &mut server);
    let (mut restarted, active, _) = accept_after_restart(&mut client);
    restarted.deliver(at(1), &mut client, "REP");
    client.deliver(at(1), &mut restarted, "DREQ");
    restarted.deliver(at(1), &mut client, "DREP");
    let event = client.event();
    assert!(matches!(event, Event::Disconnected { connection, .. } if connection == old));
    client.wait_until(at(1000));
    let event = client.event();
    assert_eq!(event, Event::TimeWaitOver { connection: old });
    let again = restarted.wait_until(at(20_000));
    assert_eq!(again[0].kind(), "REP");
    client.receive(at(20_000), &again[0]);
    let event = client.event();
    assert!(matches!(event, Event::Replied { connection, .. } if connection == active));
}
