//! Lookups of datagram services.

use crate::world::{DATAGRAMS, Host, LONG, SERVICE, at, datagram_request, kinds, padded};
use roce_cm::{CmError, DatagramAcceptance, Event, IpService, QKey, Qpn, RejectReason, SidrStatus};
use roce_wire::cm::{CmMad, CmMessage};

fn pair() -> (Host, Host) {
    let mut server = Host::new(2);
    server
        .agent
        .listen(at(0), DATAGRAMS, None, 4)
        .expect("the service is free");
    (Host::new(1), server)
}

fn acceptance() -> DatagramAcceptance {
    DatagramAcceptance {
        qpn: Qpn::from_bits(0x21),
        qkey: QKey(0x0123_4567),
        private: b"here".to_vec(),
    }
}

// shows: 12.11-lookup, 12.11-repeated, A11-header-in-front
#[test]
fn a_lookup_returns_the_qp_of_the_service() {
    let (mut client, mut server) = pair();
    let path = client.path_to(&server);
    let id = client
        .agent
        .resolve_datagram(at(0), path, &datagram_request());
    let id = id.expect("the request is valid");
    let req = client.deliver(at(0), &mut server, "SIDR_REQ");
    let Event::DatagramRequested {
        connection,
        request,
        ..
    } = server.event()
    else {
        panic!("the event is a request");
    };
    let ip = IpService {
        source_port: 40_000,
        source: client.address,
        destination: server.address,
    };
    assert_eq!((request.service, request.ip), (DATAGRAMS, Some(ip)));
    assert_eq!(request.private, padded(b"where", 180));
    server.receive(at(1), &req);
    assert_eq!((server.events(), server.sent().len()), (vec![], 0));
    let answered = server
        .agent
        .accept_datagram(at(2), connection, &acceptance());
    answered.expect("the state allows it");
    let lost = server.sent();
    // A lost message is retransmitted.
    let again = client.wait_until(at(1700));
    server.receive_all(at(1700), &again);
    let rep = server.deliver(at(1700), &mut client, "SIDR_REP");
    assert_eq!(rep.mad, lost[0].mad);
    let replied = Event::DatagramReplied {
        connection: id,
        qpn: Qpn::from_bits(0x21),
        qkey: QKey(0x0123_4567),
        private: padded(b"here", 136).into(),
    };
    assert_eq!(client.event(), replied);
    client.receive(at(1701), &rep);
    for host in [&mut client, &mut server] {
        host.wait_until(at(0) + LONG);
        assert_eq!((host.events(), host.agent.connections()), (vec![], 0));
    }
}

/// The status that the client gets after `act`, which lets the server answer the request or not.
fn status(act: impl FnOnce(&mut Host, &mut Host)) -> SidrStatus {
    let (mut client, mut server) = pair();
    let path = client.path_to(&server);
    client
        .agent
        .resolve_datagram(at(0), path, &datagram_request())
        .expect("the request is valid");
    act(&mut client, &mut server);
    // A request for a service without a listener is held for this long.
    server.agent.handle_timeouts(at(1000));
    server.deliver(at(1000), &mut client, "SIDR_REP");
    assert_eq!(client.agent.connections(), 0);
    match client.event() {
        Event::DatagramRejected { status, .. } => status,
        other => panic!("{other:?}"),
    }
}

// shows: 12.11-no-listener, 12.11-refused
#[test]
fn lookups_are_refused() {
    let rejected_with = |reason| {
        status(move |client, server| {
            client.deliver(at(0), server, "SIDR_REQ");
            let id = server.event().connection();
            server
                .agent
                .reject(at(0), id, reason, &[])
                .expect("the state allows it");
        })
    };
    assert_eq!(rejected_with(RejectReason::CONSUMER), SidrStatus::REJECTED);
    assert_eq!(rejected_with(RejectReason::NO_QP), SidrStatus::NO_QP);
    let forgotten = status(|client, server| {
        client.deliver(at(0), server, "SIDR_REQ");
        let id = server.event().connection();
        server.agent.forget(at(0), id);
    });
    assert_eq!(forgotten, SidrStatus::REJECTED);
    let changed = |change: fn(&mut roce_wire::cm::SidrReq<'_>)| {
        status(move |client, server| {
            server
                .agent
                .listen(at(0), SERVICE, None, 4)
                .expect("the service is free");
            let mut sent = client.sent();
            let mad = sent[0].parsed();
            let CmMessage::SidrReq(mut req) = mad.message else {
                panic!("{sent:?}");
            };
            change(&mut req);
            let message = CmMessage::SidrReq(req);
            let bytes = CmMad { message, ..mad }.to_bytes();
            sent[0].mad = bytes;
            server.receive_all(at(0), &sent);
            assert_eq!((server.events(), server.agent.connections()), (vec![], 0));
        })
    };
    let unknown = changed(|req| req.service = roce_cm::ServiceId(7));
    assert_eq!(unknown, SidrStatus::SERVICE_ID_NOT_SUPPORTED);
    let connections = changed(|req| req.service = SERVICE);
    assert_eq!(connections, SidrStatus::SERVICE_ID_NOT_SUPPORTED);
    let version = changed(|req| {
        req.private = roce_wire::cm::PrivateData::new(&[1]).expect("the request is valid")
    });
    assert_eq!(version, SidrStatus::VERSION_NOT_SUPPORTED);
}

// shows: 12.9-repeat
#[test]
fn an_unanswered_lookup_ends() {
    let (mut client, server) = pair();
    let path = client.path_to(&server);
    let id = client
        .agent
        .resolve_datagram(at(0), path, &datagram_request());
    let connection = id.expect("the request is valid");
    let sent = client.wait_until(at(0) + LONG);
    assert_eq!(kinds(&sent), ["SIDR_REQ"; 16]);
    assert_eq!(client.event(), Event::Unreachable { connection });
    assert_eq!(client.agent.connections(), 0);

    let forgotten = client
        .agent
        .resolve_datagram(at(0), path, &datagram_request());
    client
        .agent
        .forget(at(0), forgotten.expect("the request is valid"));
    assert_eq!(client.agent.connections(), 0);
}

#[test]
fn private_data_must_fit() {
    let (mut client, server) = pair();
    let path = client.path_to(&server);
    let mut request = datagram_request();
    request.private = vec![0; 181];
    let refused = client.agent.resolve_datagram(at(0), path, &request);
    let (given, limit) = (181, 180);
    assert_eq!(refused, Err(CmError::PrivateDataTooLong { given, limit }));
}
