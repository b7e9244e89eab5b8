//! Establishment of connections, also with lost and duplicated messages.

use crate::world::{
    Host, LONG, SERVICE, acceptance, assert_wrong_state, at, connect_request, kinds, padded,
};
use roce_cm::{
    CmError, Event, IpService, PathMtu, Psn, QKey, Qpn, QpnRange, RejectReason, ServiceType, gid_of,
};
use roce_wire::cm::{CmMessage, Mraed};

// shows: 12.9-req-rep-rtu, A11-header-in-front, A17.6.1-req-path
#[test]
fn each_side_learns_the_parameters_of_the_other() {
    let (mut client, mut server, listener) = Host::pair();
    let path = client.path_to(&server);
    let active = client.agent.connect(at(0), path, &connect_request());
    let active = active.expect("the request is valid");
    let req = client.deliver(at(0), &mut server, "REQ");
    let CmMessage::Req(on_wire) = req.message() else {
        panic!("{req:?}");
    };
    assert_eq!(on_wire.local_id, active.get());
    assert_eq!(on_wire.path.local_gid, gid_of(client.address));
    assert_eq!(on_wire.path.remote_gid, gid_of(server.address));
    assert_eq!(
        (on_wire.path.local_lid, on_wire.path.remote_lid),
        (0xffff, 0xffff)
    );
    assert!(!on_wire.path.subnet_local);
    assert_eq!(on_wire.qkey, QKey(0));

    let Event::Requested {
        connection: passive,
        listener: listener_of_request,
        path: path_of_request,
        request,
    } = server.event()
    else {
        panic!("the event is a request");
    };
    assert_eq!(
        (listener_of_request, path_of_request),
        (listener, server.path_to(&client))
    );
    assert_eq!(request.service, SERVICE);
    let ip = IpService {
        source_port: 40_000,
        source: client.address,
        destination: server.address,
    };
    assert_eq!(request.ip, Some(ip));
    assert_eq!(
        (request.qpn, request.sq_psn),
        (Qpn::from_bits(0x11), Psn::new(0x12))
    );
    assert_eq!(
        (request.responder_resources, request.initiator_depth),
        (3, 4)
    );
    assert_eq!((request.retry_count, request.rnr_retry_count), (5, 6));
    assert_eq!((request.flow_control, request.srq), (true, true));
    assert_eq!(request.service_type, ServiceType::Rc);
    assert_eq!(
        (request.path_mtu, request.ack_timeout),
        (PathMtu::Mtu1024, 17)
    );
    assert_eq!((request.traffic_class, request.hop_limit), (0x68, 64));
    assert_eq!((request.flow_label, request.ca_guid), (0x12345, 1));
    assert_eq!(request.private, padded(b"please", 56));

    let accepted = server.agent.accept(at(1), passive, &acceptance());
    accepted.expect("the state allows it");
    let rep = server.deliver(at(2), &mut client, "REP");
    assert_eq!(rep.parsed().transaction, req.parsed().transaction);
    let Event::Replied { connection, reply } = client.event() else {
        panic!("the event is a reply");
    };
    assert_eq!(connection, active);
    assert_eq!(
        (reply.qpn, reply.sq_psn),
        (Qpn::from_bits(0x21), Psn::new(0x22))
    );
    assert_eq!((reply.responder_resources, reply.initiator_depth), (4, 3));
    assert_eq!((reply.target_ack_delay, reply.rnr_retry_count), (15, 7));
    assert_eq!(
        (reply.flow_control, reply.srq, reply.ca_guid),
        (true, false, 2)
    );
    assert_eq!(reply.private, padded(b"yes", 196));

    client.ready(at(3), active, b"go");
    client.deliver(at(4), &mut server, "RTU");
    let established = Event::Established {
        connection: passive,
        private: padded(b"go", 224).into(),
    };
    assert_eq!(server.event(), established);
    assert_eq!(
        (client.agent.next_timeout(), server.agent.next_timeout()),
        (None, None)
    );
}

// shows: 12.9-random-id
#[test]
fn communication_ids_are_drawn_from_the_agents_part() {
    let (mut client, server, _) = Host::pair();
    let path = client.path_to(&server);
    let ids: Vec<_> = (0..100)
        .map(|_| client.agent.connect(at(0), path, &connect_request()))
        .map(|id| id.expect("the request is valid").get())
        .collect();
    let part = QpnRange::new(1).map(|part| u32::from(part.number()));
    assert!(ids.iter().all(|id| Some(id >> 25) == part), "{ids:x?}");
    assert!(
        ids.windows(2)
            .any(|pair| pair[1] != pair[0].wrapping_add(1))
    );
}

// shows: 12.9-repeat, 12.9-wait, 12.9-give-up, 12.6.5-timeout-encoding
#[test]
fn a_req_is_retransmitted_and_then_given_up() {
    let (mut client, server, _) = Host::pair();
    let path = client.path_to(&server);
    let id = client.agent.connect(at(0), path, &connect_request());
    let id = id.expect("the request is valid");
    // 4.096 µs × (2^18 + 2 × 2^16).
    let wait = 4096 * ((1 << 18) + (2 << 16));
    assert_eq!(
        client.agent.next_timeout().map(|t| t.as_nanos()),
        Some(wait)
    );
    let sent = client.wait_until(at(0) + LONG);
    assert_eq!(kinds(&sent[..16]), ["REQ"; 16]);
    assert!(sent[1..16].iter().all(|again| again.mad == sent[0].mad));
    assert_eq!(client.event(), Event::Unreachable { connection: id });
    // The REJ tells the peer that the request was given up, in case its owner has not answered yet.
    let CmMessage::Rej(rej) = sent[16].message() else {
        panic!("{sent:?}");
    };
    assert_eq!((rej.local_id, rej.remote_id), (id.get(), 0));
    assert_eq!(rej.reason, RejectReason::TIMEOUT);
    assert_eq!((sent.len(), client.agent.connections()), (17, 0));
}

// shows: 12.9-repeated-req
#[test]
fn a_repeated_req_gets_the_same_rep() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let active = client.agent.connect(at(0), path, &connect_request());
    let req = client.deliver(at(0), &mut server, "REQ");
    let passive = server.event().connection();
    server.accept(at(0), passive);
    let lost = server.sent();
    server.receive(at(100), &req);
    let again = server.sent();
    assert_eq!(again[0].mad, lost[0].mad);
    client.receive_all(at(100), &again);
    assert_eq!(
        client.event().connection(),
        active.expect("the request is valid")
    );
    assert_eq!(server.events(), []);
}

// shows: 12.9-repeat, 12.9-repeated-rep
#[test]
fn a_repeated_rep_gets_the_same_rtu() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    client.event();
    client.ready(at(0), active, b"go");
    let lost = client.sent();
    let again = server.wait_until(at(1700));
    assert_eq!(kinds(&again), ["REP"]);
    client.receive_all(at(1700), &again);
    let rtu = client.deliver(at(1700), &mut server, "RTU");
    assert_eq!(rtu.mad, lost[0].mad);
    assert!(matches!(server.event(), Event::Established { .. }));
    // Another RTU does nothing.
    server.receive(at(1701), &rtu);
    assert_eq!((server.events(), server.sent().len()), (vec![], 0));
    assert_eq!(client.events(), []);
}

// shows: 12.6.6-sent, 12.6.6-waits
#[test]
fn an_mra_extends_the_wait_for_a_slow_owner() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let active = client.agent.connect(at(0), path, &connect_request());
    let active = active.expect("the request is valid");
    client.deliver(at(0), &mut server, "REQ");
    let passive = server.event().connection();
    let again = client.wait_until(at(1700));
    server.receive_all(at(1700), &again);
    let mra = server.deliver(at(1700), &mut client, "MRA");
    assert!(matches!(mra.message(), CmMessage::Mra(mra) if mra.mraed == Mraed::Req));
    // The MRA extends the wait from 1.6 s to 17 s.
    assert_eq!(client.wait_until(at(1700 + 17_000)).len(), 0);
    assert_eq!(client.wait_until(at(1700 + 18_000)).len(), 1);

    server.accept(at(20_000), passive);
    let rep = server.deliver(at(20_000), &mut client, "REP");
    client.event();
    client.receive(at(20_001), &rep);
    let mra = client.deliver(at(20_001), &mut server, "MRA");
    assert!(matches!(mra.message(), CmMessage::Mra(mra) if mra.mraed == Mraed::Rep));
    assert_eq!(server.wait_until(at(20_001 + 17_000)).len(), 0);
    assert_eq!(server.wait_until(at(20_001 + 18_000)).len(), 1);
    client.ready(at(40_000), active, &[]);
    client.deliver(at(40_000), &mut server, "RTU");
    assert!(matches!(server.event(), Event::Established { .. }));
}

// shows: 12.9-data-before-rtu
#[test]
fn data_before_the_rtu_establishes_the_connection() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.agent.established(at(0), passive);
    assert_eq!(server.events(), [], "the owner has not accepted");
    server.accept(at(0), passive);
    server.agent.established(at(1), passive);
    let established = Event::Established {
        connection: passive,
        private: Vec::new().into(),
    };
    assert_eq!(server.event(), established);
    assert_eq!(server.agent.next_timeout(), None);
    server.agent.established(at(1), passive);
    server.deliver(at(2), &mut client, "REP");
    client.event();
    client.ready(at(2), active, &[]);
    client.deliver(at(2), &mut server, "RTU");
    assert_eq!(server.events(), []);
}

#[test]
fn an_agent_connects_with_itself() {
    let mut host = Host::new(1);
    host.agent
        .listen(at(0), SERVICE, None, 1)
        .expect("the service is free");
    let path = host.path_to(&host);
    let active = host.agent.connect(at(0), path, &connect_request());
    let active = active.expect("the request is valid");
    let turn = |host: &mut Host| {
        let sent = host.sent();
        host.receive_all(at(0), &sent);
        kinds(&sent)
    };
    assert_eq!(turn(&mut host), ["REQ"]);
    let passive = host.event().connection();
    host.accept(at(0), passive);
    assert_eq!(turn(&mut host), ["REP"]);
    assert_eq!(host.event().connection(), active);
    host.ready(at(0), active, &[]);
    assert_eq!(turn(&mut host), ["RTU"]);
    assert_eq!(host.event().connection(), passive);
    host.disconnect(at(0), active, &[]);
    assert_eq!(turn(&mut host), ["DREQ"]);
    assert!(
        matches!(host.event(), Event::DisconnectRequested { connection, .. } if connection == passive)
    );
    host.disconnect(at(0), passive, &[]);
    assert_eq!(turn(&mut host), ["DREP"]);
    assert!(matches!(host.event(), Event::Disconnected { connection, .. } if connection == active));
    host.wait_until(at(0) + LONG);
    assert_eq!(host.agent.connections(), 0);
}

#[test]
fn calls_with_invalid_values_or_in_a_wrong_state_fail() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let mut request = connect_request();
    request.private = vec![0; 57];
    let refused = client.agent.connect(at(0), path, &request);
    let (given, limit) = (57, 56);
    assert_eq!(refused, Err(CmError::PrivateDataTooLong { given, limit }));
    let mut request = connect_request();
    request.retry_count = 8;
    let refused = client.agent.connect(at(0), path, &request);
    assert!(matches!(
        refused,
        Err(CmError::TooLarge {
            given: 8,
            limit: 7,
            ..
        })
    ));
    let mut two = path;
    two.remote = "::1".parse().expect("an address");
    let refused = client.agent.connect(at(0), two, &connect_request());
    assert_eq!(refused, Err(CmError::MixedFamilies));
    assert_eq!(client.agent.connections(), 0);

    let (active, passive) = client.request(at(0), &mut server);
    assert_wrong_state(client.agent.ready(at(0), active, &[]));
    assert_wrong_state(client.agent.accept(at(0), active, &acceptance()));
    assert_wrong_state(client.agent.disconnect(at(0), active, &[]));
    assert_wrong_state(server.agent.ready(at(0), passive, &[]));
    let mut long = acceptance();
    long.private = vec![0; 197];
    let refused = server.agent.accept(at(0), passive, &long);
    let (given, limit) = (197, 196);
    assert_eq!(refused, Err(CmError::PrivateDataTooLong { given, limit }));
    server.accept(at(0), passive);
    assert_wrong_state(server.agent.accept(at(0), passive, &acceptance()));
    server.agent.forget(at(0), passive);
    client.agent.forget(at(0), active);
    let refused = client.agent.ready(at(0), active, &[]);
    assert_eq!(refused, Err(CmError::UnknownConnection));
}

/// The REP carries the number of an XRC target QP in the field of the end-to-end context number.
// shows: A14-rep-target
#[test]
fn the_rep_names_the_xrc_target_qp() {
    let (mut client, mut server, _) = Host::pair();
    let mut request = connect_request();
    request.service_type = ServiceType::Xrc;
    let path = client.path_to(&server);
    let asked = client.agent.connect(at(0), path, &request);
    client.deliver(at(0), &mut server, "REQ");
    let Event::Requested {
        connection,
        request,
        ..
    } = server.event()
    else {
        panic!("the event is a request");
    };
    assert_eq!(request.service_type, ServiceType::Xrc);
    server.accept(at(0), connection);
    let rep = server.deliver(at(0), &mut client, "REP");
    let CmMessage::Rep(rep) = rep.message() else {
        panic!("{rep:?}");
    };
    let target = acceptance().qpn;
    assert_eq!((rep.qpn, rep.eecn, rep.srq), (Qpn::QP0, target, true));
    let Event::Replied { reply, .. } = client.event() else {
        panic!("the event is a reply");
    };
    assert_eq!(reply.qpn, target);
    // The end is reported with the same ID.
    let active = asked.expect("the request is valid");
    client.ready(at(0), active, &[]);
    client.deliver(at(0), &mut server, "RTU");
    server.event();
    client.disconnect(at(0), active, &[]);
    client.deliver(at(0), &mut server, "DREQ");
    assert!(matches!(server.event(), Event::DisconnectRequested { .. }));
}
