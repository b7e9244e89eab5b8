//! Messages from the network can neither break an agent nor exhaust its memory.

use crate::world::{Host, LONG, SERVICE, Sent, acceptance, at, connect_request, kinds};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use roce_cm::{Event, Path, Qpn, RejectReason};
use roce_wire::cm::{CmMad, CmMessage, Req};
use std::net::IpAddr;

// shows: 13.4.2-dropped
#[test]
fn other_mads_are_dropped_without_an_answer() {
    let (_, mut server, _) = Host::pair();
    let path = Path {
        local: server.address,
        remote: IpAddr::from([10, 0, 0, 1]),
    };
    let mut good = [0; 256];
    good[..4].copy_from_slice(&[1, 7, 2, 3]);
    good[17] = 0x15;
    let mut received = 0;
    // Other classes: subnet management, performance, vendor classes (some hardware uses one to
    // measure round trips). Other versions. Get and GetResp. Unknown attributes, and those of
    // alternate paths.
    for (at_byte, value) in [
        (1, 0x01),
        (1, 0x81),
        (1, 0x04),
        (1, 0x09),
        (1, 0x30),
        (0, 2),
        (2, 1),
        (3, 0x01),
        (3, 0x81),
        (17, 0x01),
        (17, 0x19),
        (17, 0x1a),
        (16, 0x01),
    ] {
        let mut mad = good;
        mad[at_byte] = value;
        server.agent.receive(at(0), path, &mad);
        received += 1;
    }
    for len in [0, 1, 23, 24, 255] {
        server.agent.receive(at(0), path, &good[..len]);
        received += 1;
    }
    assert_eq!(server.agent.counters().unknown, received);
    assert_eq!((server.sent().len(), server.events()), (0, vec![]));
    server.agent.receive(at(0), path, &good);
    assert_eq!(server.sent().len(), 1, "a DREQ is answered");
}

/// `n` REQs, each with a communication ID and a QP of its own.
fn flood(server: &Host, n: u32) -> Vec<Sent> {
    let mut client = Host::new(1);
    let path = client.path_to(server);
    client
        .agent
        .connect(at(0), path, &connect_request())
        .expect("the request is valid");
    let sent = client.sent();
    let mad = sent[0].parsed();
    let CmMessage::Req(req) = mad.message else {
        panic!("{sent:?}");
    };
    let one = |i| {
        let mut req = req;
        req.local_id = i;
        req.qpn = Qpn::from_bits(i);
        let message = CmMessage::Req(req);
        let mad = CmMad { message, ..mad }.to_bytes();
        Sent { path, mad }
    };
    (1..=n).map(one).collect()
}

#[test]
fn the_number_of_unanswered_requests_is_bounded() {
    let mut server = Host::new(2);
    let backlog = usize::MAX;
    let listener = server
        .agent
        .listen(at(0), SERVICE, None, backlog)
        .expect("the service is free");
    let requests = flood(&server, 3000);
    server.receive_all(at(0), &requests);
    assert_eq!(server.agent.connections(), 1024);
    assert_eq!(server.events().len(), 1024);
    assert_eq!(server.agent.counters().too_many, 3000 - 1024);
    // The owner has noticed none. Removing the listener rejects the requests, and they are
    // forgotten after a while.
    server.agent.stop_listening(at(0), listener);
    server.wait_until(at(0) + LONG);
    assert_eq!(server.agent.connections(), 0);
}

#[test]
fn the_number_of_kept_refusals_is_bounded() {
    let mut server = Host::new(2);
    server
        .agent
        .listen(at(0), SERVICE, None, 1)
        .expect("the service is free");
    for request in flood(&server, 6000) {
        server.receive(at(0), &request);
        let id = server.event().connection();
        let reason = RejectReason::CONSUMER;
        server
            .agent
            .reject(at(0), id, reason, &[])
            .expect("the state allows it");
        server.sent();
    }
    assert_eq!(server.agent.connections(), 4096);
    server.wait_until(at(0) + LONG);
    assert_eq!(server.agent.connections(), 0);
}

/// A forged REQ asks for the longest response time and the most retries. If the owner accepts it,
/// the connection is over after 80 s at most. The time that Linux asks for is granted, with few
/// packets.
#[test]
fn a_peer_that_never_answers_an_acceptance_is_given_up_in_time() {
    for (exponent, retries, resent, over_by) in [(31, 15, 2, 80), (20, 15, 6, 78), (18, 3, 2, 7)] {
        let mut server = Host::new(2);
        let listener = server.agent.listen(at(0), SERVICE, None, 1);
        listener.expect("the service is free");
        let mut request = flood(&server, 1).remove(0);
        let mad = request.parsed();
        let CmMessage::Req(req) = mad.message else {
            panic!("{request:?}");
        };
        let req = Req {
            local_response_timeout: exponent,
            max_cm_retries: retries,
            ..req
        };
        let message = CmMessage::Req(req);
        request.mad = CmMad { message, ..mad }.to_bytes();
        server.receive(at(0), &request);
        let id = server.event().connection();
        server.accept(at(0), id);
        let sent = server.wait_until(at(over_by * 1000));
        let reps = kinds(&sent).iter().filter(|kind| **kind == "REP").count();
        assert_eq!(reps, 1 + resent, "{exponent}, {retries}");
        assert_eq!(kinds(&sent).last(), Some(&"REJ"));
        assert!(matches!(server.event(), Event::Unreachable { .. }));
    }
}

/// The sender of a REQ chooses how often messages are repeated, and may be forged. An accepted REQ
/// draws eight packets at most.
#[test]
fn a_forged_req_draws_few_packets() {
    for retries in 0..=15 {
        let mut server = Host::new(2);
        let listener = server.agent.listen(at(0), SERVICE, None, 1);
        listener.expect("the service is free");
        let mut request = flood(&server, 1).remove(0);
        let mad = request.parsed();
        let CmMessage::Req(req) = mad.message else {
            panic!("{request:?}");
        };
        let req = Req {
            local_response_timeout: 0,
            max_cm_retries: retries,
            ..req
        };
        let message = CmMessage::Req(req);
        request.mad = CmMad { message, ..mad }.to_bytes();
        server.receive(at(0), &request);
        let id = server.event().connection();
        server.accept(at(0), id);
        let sent = server.wait_until(at(0) + LONG);
        assert!(sent.len() <= 8, "{retries}: {:?}", kinds(&sent));
        assert!(matches!(server.event(), Event::Unreachable { .. }));
    }
}

#[test]
fn the_outbox_is_bounded() {
    let mut server = Host::new(2);
    for request in flood(&server, 5000) {
        server.receive(at(0), &request);
    }
    server.agent.handle_timeouts(at(1000));
    assert_eq!(server.agent.counters().outbox_full, 5000 - 4096);
    assert_eq!(server.sent().len(), 4096);
}

/// An attacker that knows no communication ID, or has another address, can't end a connection.
// shows: 12.9-peer-only
#[test]
fn only_the_peer_can_end_a_connection() {
    let (mut client, mut server, _) = Host::pair();
    let (active, _) = client.establish(at(0), &mut server);
    client.disconnect(at(0), active, &[]);
    let dreq = client.sent().remove(0);
    let mut elsewhere = dreq.clone();
    elsewhere.path.local = IpAddr::from([10, 0, 0, 9]);
    server.receive(at(0), &elsewhere);
    for (at_byte, what) in [(24, "its own ID"), (28, "our ID")] {
        let mut guessed = dreq.clone();
        guessed.mad[at_byte] ^= 1;
        server.receive(at(0), &guessed);
        assert_eq!(server.events(), [], "{what}");
    }
    server.receive(at(0), &dreq);
    assert!(matches!(server.event(), Event::DisconnectRequested { .. }));
}

/// The same message from another address.
fn elsewhere(sent: &Sent) -> Sent {
    let mut sent = sent.clone();
    sent.path.local = IpAddr::from([10, 0, 0, 9]);
    sent
}

/// The same message from an attacker that guesses the sender's ID for the connection.
fn guessed(sent: &Sent) -> Sent {
    let mut sent = sent.clone();
    sent.mad[24] ^= 1;
    sent
}

/// A stranger can't delay, accept, establish or reject a connection.
// shows: 12.9-peer-only
#[test]
fn only_the_peer_can_delay_establish_or_reject_a_connection() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    let again = client.wait_until(at(1700));
    server.receive(at(1700), &again[0]);
    let mra = server.sent().remove(0);
    let due = client.agent.next_timeout();
    client.receive(at(1700), &elsewhere(&mra));
    assert_eq!(client.agent.next_timeout(), due);
    client.receive(at(1700), &mra);
    assert!(client.agent.next_timeout() > due);

    server.accept(at(1701), passive);
    let rep = server.sent().remove(0);
    client.receive(at(1701), &elsewhere(&rep));
    assert_eq!(client.events(), []);
    client.receive(at(1701), &rep);
    client.event();
    client.ready(at(1701), active, &[]);
    let rtu = client.sent().remove(0);
    for stranger in [elsewhere(&rtu), guessed(&rtu)] {
        server.receive(at(1702), &stranger);
        assert_eq!(server.events(), []);
    }
    server.receive(at(1702), &rtu);
    assert!(matches!(server.event(), Event::Established { .. }));

    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    let rejected = client
        .agent
        .reject(at(0), active, RejectReason::CONSUMER, &[]);
    rejected.expect("the state allows it");
    let rej = client.sent().remove(0);
    for stranger in [elsewhere(&rej), guessed(&rej)] {
        server.receive(at(1), &stranger);
        assert_eq!(server.events(), []);
    }
    server.receive(at(1), &rej);
    assert!(matches!(server.event(), Event::Rejected { .. }));
}

/// One MRA extends the wait to 275 s at most, although the peer asks for two hours.
#[test]
fn one_mra_extends_the_wait_by_a_bounded_time() {
    let (mut client, mut server, _) = Host::pair();
    client.request(at(0), &mut server);
    let again = client.wait_until(at(1700));
    server.receive(at(1700), &again[0]);
    let mut mra = server.sent().remove(0);
    mra.mad[24 + 9] = 31 << 3;
    client.receive(at(1700), &mra);
    let due = client.agent.next_timeout().expect("the state allows it");
    assert!(at(276_000) < due && due < at(278_000), "{due:?}");
}

/// Real messages with bytes changed: no panic, and nothing is left at the end.
#[test]
fn damaged_messages_cause_no_panic_and_leave_no_state() {
    for seed in 0..100 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut client, mut server, _) = Host::pair();
        let path = client.path_to(&server);
        let mut ids = Vec::new();
        for round in 0..20_u64 {
            let now = at(round * 50);
            ids.extend(client.agent.connect(now, path, &connect_request()));
            for _ in 0..4 {
                for sent in client.sent() {
                    server.receive(now, &damaged(&sent, &mut rng));
                    server.receive(now, &sent);
                }
                for event in server.events() {
                    let id = event.connection();
                    let _ = server.agent.accept(now, id, &acceptance());
                    let _ = server.agent.disconnect(now, id, &[]);
                }
                for sent in server.sent() {
                    client.receive(now, &damaged(&sent, &mut rng));
                    client.receive(now, &sent);
                }
                for event in client.events() {
                    let _ = client.agent.ready(now, event.connection(), &[]);
                    let _ = client.agent.disconnect(now, event.connection(), &[]);
                    ids.push(event.connection());
                }
            }
        }
        for id in ids {
            client.agent.forget(at(1000), id);
        }
        for sent in client.sent() {
            server.receive(at(1000), &sent);
        }
        for event in server.events() {
            server.agent.forget(at(1000), event.connection());
        }
        client.wait_until(at(1000) + 10 * LONG);
        assert_eq!(client.agent.connections(), 0, "seed {seed}");
    }
}

fn damaged(sent: &Sent, rng: &mut ChaCha8Rng) -> Sent {
    let mut damaged = sent.clone();
    for _ in 0..=rng.next_u32() % 3 {
        let at = rng.next_u32() as usize % 120;
        damaged.mad[at] = rng.next_u32() as u8;
    }
    damaged
}
