//! Connections that one side knows and the other has lost.

use crate::world::{Host, SERVICE, at, connect_request, kinds};
use roce_cm::{Event, Qpn, RejectReason};
use roce_wire::cm::{CmMad, CmMessage};

/// The reason of the REJ that the host sends.
#[track_caller]
fn refused(host: &mut Host) -> RejectReason {
    match host.sent().first().map(|sent| sent.parsed().message) {
        Some(CmMessage::Rej(rej)) => rej.reason,
        other => panic!("{other:?}"),
    }
}

// shows: 12.9-stale-req, 12.9-stale-ended
#[test]
fn a_new_req_from_a_connected_qp_ends_the_old_connection() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.establish(at(0), &mut server);
    // The client restarts, has forgotten the connection, and draws the same QPN.
    let mut restarted = Host::new(1);
    let mut config = roce_cm::Config::new([77; 32], roce_cm::QpnRange::new(1).expect("a part"), 1);
    config.max_retries = 3;
    restarted.agent = roce_cm::Agent::new(config);
    let path = restarted.path_to(&server);
    restarted
        .agent
        .connect(at(1), path, &connect_request())
        .expect("the request is valid");
    restarted.deliver(at(1), &mut server, "REQ");
    let sent = server.sent();
    assert_eq!(kinds(&sent), ["REJ", "DREQ"]);
    restarted.receive_all(at(1), &sent);
    let event = restarted.event();
    let stale = RejectReason::STALE_CONNECTION;
    assert!(matches!(event, Event::Rejected { reason, .. } if reason == stale));
    restarted.deliver(at(1), &mut server, "DREP");
    assert!(
        matches!(server.event(), Event::Disconnected { connection, .. } if connection == passive)
    );
    // During time wait, the QP is still rejected. After it, the QP is accepted.
    restarted
        .agent
        .connect(at(2), path, &connect_request())
        .expect("the request is valid");
    restarted.deliver(at(2), &mut server, "REQ");
    assert_eq!(refused(&mut server), stale);
    server.wait_until(at(1000));
    server.events();
    restarted
        .agent
        .connect(at(1000), path, &connect_request())
        .expect("the request is valid");
    restarted.deliver(at(1000), &mut server, "REQ");
    assert!(matches!(server.event(), Event::Requested { .. }));
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

// shows: 12.9-stale-rep
#[test]
fn a_rep_with_a_qp_in_use_is_rejected() {
    let (mut client, mut server, _) = Host::pair();
    client.establish(at(0), &mut server);
    let mut restarted = Host::new(2);
    restarted
        .agent
        .listen(at(0), SERVICE, None, 1)
        .expect("the service is free");
    let path = client.path_to(&restarted);
    let mut request = connect_request();
    request.qpn = Qpn::from_bits(0x12);
    let active = client
        .agent
        .connect(at(1), path, &request)
        .expect("the request is valid");
    client.deliver(at(1), &mut restarted, "REQ");
    let passive = restarted.event().connection();
    restarted.accept(at(1), passive);
    restarted.deliver(at(1), &mut client, "REP");
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
