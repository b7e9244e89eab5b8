//! Requests that arrive before there is a listener.

use crate::world::{
    DATAGRAMS, Host, LONG, SERVICE, Sent, at, connect_request, datagram_request, kinds,
};
use roce_cm::{ConnectionId, Event, Path, Qpn, RejectReason};
use roce_wire::cm::{CmMad, CmMessage};
use std::net::IpAddr;

/// A client, a server that does not listen yet, and the client's request, which the server has
/// received.
fn pair_with_held_request() -> (Host, Host, Sent) {
    let [mut client, mut server] = [1, 2].map(Host::new);
    let (req, _) = request_connection(&mut client, &mut server);
    (client, server, req)
}

fn request_connection(client: &mut Host, server: &mut Host) -> (Sent, ConnectionId) {
    let path = client.path_to(server);
    let asked = client.agent.connect(at(0), path, &connect_request());
    let req = client.deliver(at(0), server, "REQ");
    (req, asked.expect("the request is valid"))
}

/// A request from host number `peer` with communication ID `id`. Its sender waits for the response
/// timeout with the exponent `timeout` (IBTA 1.7, 12.6.5).
fn request_from(server: &Host, req: &Sent, peer: u8, id: u32, timeout: u8) -> Sent {
    let mad = req.parsed();
    let CmMessage::Req(mut req) = mad.message else {
        panic!("{mad:?}");
    };
    let path = Path {
        local: IpAddr::from([10, 0, 0, peer]),
        remote: server.address,
    };
    req.local_id = id;
    req.qpn = Qpn::from_bits(id);
    req.remote_response_timeout = timeout;
    req.path.local_gid = roce_cm::gid_of(path.local);
    let message = CmMessage::Req(req);
    let mad = CmMad { message, ..mad }.to_bytes();
    Sent { path, mad }
}

/// The peers and IDs of requests that were refused.
fn refused(sent: &[Sent]) -> Vec<(IpAddr, u32)> {
    let of = |sent: &Sent| match sent.message() {
        CmMessage::Rej(rej) if rej.reason == RejectReason::INVALID_SERVICE_ID => {
            (sent.path.remote, rej.remote_id)
        }
        other => panic!("{other:?}"),
    };
    sent.iter().map(of).collect()
}

#[test]
fn a_request_is_held_until_a_listener_appears() {
    let (mut client, mut server, req) = pair_with_held_request();
    server.receive(at(100), &req);
    assert_eq!((server.agent.held(), server.events()), (1, vec![]));
    assert_eq!(server.sent().len(), 0);
    // Listeners for other services, or at another address, do not get the request.
    let elsewhere = Some(IpAddr::from([10, 0, 0, 3]));
    for (service, local) in [(DATAGRAMS, None), (SERVICE, elsewhere)] {
        let listener = server.agent.listen(at(900), service, local, 1);
        listener.expect("the service is free");
    }
    assert_eq!((server.agent.held(), server.events()), (1, vec![]));
    assert_eq!(server.agent.next_timeout(), Some(at(1000)));
    let listener = server.agent.listen(at(999), SERVICE, None, 1);
    let listener = listener.expect("the service is free");
    let event = server.event();
    assert!(matches!(event, Event::Requested { listener: of, .. } if of == listener));
    assert_eq!(server.agent.held(), 0);
    server.receive(at(999), &req);
    server.deliver(at(999), &mut client, "MRA");
    server.accept(at(999), event.connection());
    server.deliver(at(999), &mut client, "REP");
    let active = client.event().connection();
    client.ready(at(999), active, &[]);
    client.deliver(at(999), &mut server, "RTU");
    server.event();
    assert_eq!(server.wait_until(at(0) + LONG).len(), 0);
}

#[test]
fn a_listener_gets_no_more_than_its_backlog() {
    let (_, mut server, req) = pair_with_held_request();
    for id in [20, 21] {
        let request = request_from(&server, &req, 1, id, 18);
        server.receive(at(0), &request);
    }
    let listener = server.agent.listen(at(1), SERVICE, None, 2);
    listener.expect("the service is free");
    assert_eq!((server.events().len(), server.agent.held()), (2, 0));
    assert_eq!(server.agent.counters().backlog_full, 1);
    assert_eq!(server.sent().len(), 0, "the peer retransmits the request");
}

#[test]
fn a_request_is_held_no_longer_than_its_sender_waits() {
    let (_, mut server, req) = pair_with_held_request();
    // 4.2 ms, and 34 s: no request is held for longer than a second.
    for (id, timeout) in [(20, 10), (21, 23)] {
        let request = request_from(&server, &req, 1, id, timeout);
        server.receive(at(0), &request);
    }
    let peer = IpAddr::from([10, 0, 0, 1]);
    assert_eq!(server.wait_until(at(4)).len(), 0);
    assert_eq!(refused(&server.wait_until(at(5))), [(peer, 20)]);
    // A retransmission does not extend the deadline.
    server.receive(at(900), &req);
    assert_eq!(server.wait_until(at(999)).len(), 0);
    assert_eq!(server.agent.next_timeout(), Some(at(1000)));
    let sent = server.wait_until(at(1000));
    assert_eq!(sent[0].parsed().transaction, req.parsed().transaction);
    let CmMessage::Req(first) = req.message() else {
        panic!("{req:?}");
    };
    assert_eq!(refused(&sent), [(peer, first.local_id), (peer, 21)]);
    assert_eq!(
        (server.agent.held(), server.agent.next_timeout()),
        (0, None)
    );
}

#[test]
fn a_lookup_is_held_until_a_listener_appears() {
    let [mut client, mut server] = [1, 2].map(Host::new);
    let path = client.path_to(&server);
    let lookup = client
        .agent
        .resolve_datagram(at(0), path, &datagram_request());
    lookup.expect("the request is valid");
    let req = client.deliver(at(0), &mut server, "SIDR_REQ");
    server.receive(at(1), &req);
    assert_eq!(server.agent.held(), 1);
    let listener = server.agent.listen(at(500), DATAGRAMS, None, 1);
    listener.expect("the service is free");
    assert!(matches!(server.event(), Event::DatagramRequested { .. }));
    assert_eq!(server.wait_until(at(0) + LONG).len(), 0);
}

#[test]
fn a_requester_that_gives_up_withdraws_its_held_request() {
    // The peer gives up with a REJ.
    let [mut client, mut server] = [1, 2].map(Host::new);
    let (_, active) = request_connection(&mut client, &mut server);
    client.agent.forget(at(1), active);
    let rej = client.sent().remove(0);
    let mut elsewhere = rej.clone();
    elsewhere.path.local = IpAddr::from([10, 0, 0, 9]);
    server.receive(at(1), &elsewhere);
    assert_eq!(server.agent.held(), 1, "the REJ came from another address");
    server.receive(at(1), &rej);
    assert_eq!(
        (server.agent.held(), server.agent.counters().unexpected),
        (0, 1)
    );

    // The peer gives up with a DREQ, which the agent answers.
    let (_, mut server, req) = pair_with_held_request();
    let CmMessage::Req(first) = req.message() else {
        panic!("{req:?}");
    };
    let dreq = roce_wire::cm::Dreq {
        local_id: first.local_id,
        remote_id: 7,
        remote_qpn: Qpn::from_bits(9),
        private: roce_wire::cm::PrivateData::NONE,
    };
    let message = CmMessage::Dreq(dreq);
    let mad = CmMad {
        message,
        ..req.parsed()
    }
    .to_bytes();
    server.receive(at(1), &Sent { mad, ..req });
    assert_eq!(server.agent.held(), 0);
    assert_eq!(kinds(&server.wait_until(at(0) + LONG)), ["DREP"]);
}

/// Beyond 64 requests of one peer, or 256 in total, the agent refuses the oldest request.
#[test]
fn the_number_of_held_requests_is_bounded() {
    let (_, mut server, req) = pair_with_held_request();
    server.wait_until(at(1000));
    let receive = |server: &mut Host, peer, id| {
        let request = request_from(server, &req, peer, id, 18);
        server.receive(at(2000), &request);
        refused(&server.sent())
    };
    let peer = |number| IpAddr::from([10, 0, 0, number]);
    for id in 1..=64 {
        assert_eq!(receive(&mut server, 9, id), []);
    }
    assert_eq!(receive(&mut server, 9, 65), [(peer(9), 1)]);
    assert_eq!(receive(&mut server, 9, 66), [(peer(9), 2)]);
    for of in 10..202 {
        assert_eq!(receive(&mut server, of, 1000 + u32::from(of)), []);
    }
    assert_eq!(server.agent.held(), 256);
    assert_eq!(receive(&mut server, 203, 2000), [(peer(9), 3)]);
    assert_eq!(receive(&mut server, 203, 2001), [(peer(9), 4)]);
    assert_eq!(server.agent.held(), 256);
    server.wait_until(at(3000));
    assert_eq!(server.agent.held(), 0);
}

/// The owner drops a request if another process at this address has begun to listen.
#[test]
fn dropped_held_requests_get_no_answer() {
    let (_, mut server, req) = pair_with_held_request();
    let other = request_from(&server, &req, 1, 20, 10);
    server.receive(at(0), &other);
    assert_eq!(server.agent.expired_held(at(4)), []);
    let here = [(server.address, SERVICE)];
    assert_eq!(server.agent.expired_held(at(5)), here);
    assert_eq!(server.agent.expired_held(at(1000)), here);
    server.agent.drop_held(server.address, DATAGRAMS);
    server.agent.drop_held(IpAddr::from([10, 0, 0, 3]), SERVICE);
    assert_eq!(server.agent.held(), 2);
    server.agent.drop_held(server.address, SERVICE);
    assert_eq!(server.wait_until(at(0) + LONG).len(), 0);
    assert_eq!(server.agent.held(), 0);
}
