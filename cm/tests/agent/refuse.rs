//! Requests are rejected, for every reason.

use crate::world::{Host, LONG, SERVICE, Sent, at, connect_request, kinds, padded};
use roce_cm::{CmError, Duration, Event, Instant, PortSpace, RejectReason, ServiceId};
use roce_wire::cm::{CmMad, CmMessage, PrivateData, Rej, Rejected, Req};
use std::net::Ipv6Addr;

/// The message as a REJ; fails if it is another one.
#[track_caller]
fn rej(sent: &Sent) -> Rej<'_> {
    match sent.message() {
        CmMessage::Rej(rej) => rej,
        other => panic!("{other:?}"),
    }
}

/// A REQ to the server that was changed on its way, and the reason of the REJ that answers it
/// at once.
fn reason_for(change: impl Fn(&mut Req<'_>)) -> Option<RejectReason> {
    reason_until(at(0), change)
}

/// As [`reason_for`], for a REJ that is sent by `until`.
fn reason_until(until: Instant, change: impl Fn(&mut Req<'_>)) -> Option<RejectReason> {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let id = client.agent.connect(at(0), path, &connect_request());
    let mut sent = client.sent();
    let mad = sent[0].parsed();
    let CmMessage::Req(mut req) = mad.message else {
        panic!("the message is a REQ");
    };
    change(&mut req);
    let message = CmMessage::Req(req);
    let changed = CmMad { message, ..mad }.to_bytes();
    sent[0].mad = changed;
    server.receive(at(0), &sent[0]);
    let answer = server.wait_until(until);
    client.receive_all(until, &answer);
    let refused = answer.first().map(|answer| rej(answer).reason);
    if let Some(reason) = refused {
        assert_eq!((server.agent.connections(), server.events()), (0, vec![]));
        assert_eq!(client.agent.connections(), 0);
        let connection = id.expect("the request is valid");
        let private = vec![0; 148];
        let rejected = Event::Rejected {
            connection,
            reason,
            private: private.into(),
        };
        assert_eq!(client.event(), rejected);
    }
    refused
}

// shows: 12.9-no-listener, 12.6.7.2-invalid-gid, A11-no-datagram-req
#[test]
fn unacceptable_requests_are_rejected_with_a_reason() {
    assert_eq!(reason_for(|_| ()), None);
    for service in [ServiceId::ip(PortSpace::Tcp, 7175), ServiceId(7)] {
        let until = |ms| reason_until(at(ms), |req| req.service = service);
        assert_eq!(until(999), None, "the request is held");
        assert_eq!(until(1000), Some(RejectReason::INVALID_SERVICE_ID));
    }
    let datagram = reason_for(|req| req.service = ServiceId::ip(PortSpace::Udp, 7174));
    assert_eq!(datagram, Some(RejectReason::INVALID_TRANSPORT_SERVICE_TYPE));
    let spoofed = reason_for(|req| req.path.local_gid = Ipv6Addr::LOCALHOST);
    assert_eq!(spoofed, Some(RejectReason::INVALID_GID));
    let foreign = reason_for(|req| req.path.remote_gid = Ipv6Addr::LOCALHOST);
    assert_eq!(foreign, Some(RejectReason::INVALID_GID));
    let version =
        reason_for(|req| req.private = PrivateData::new(&[1; 92]).expect("the request is valid"));
    assert_eq!(version, Some(RejectReason::UNSUPPORTED));
}

/// RoCE has no LIDs: any value in their four fields of a REQ is accepted, and so none is the reason
/// of a REJ.
// shows: CA17-34-req-lids, CA17-35-reject-reasons
#[test]
fn the_lids_of_a_request_are_ignored() {
    /// The offsets of the LIDs of the primary path and of the alternate path (IBTA 1.7, 12.6.5).
    const LIDS_AT: [usize; 4] = [76, 78, 120, 122];
    for lid in [0, 1, 0xbfff, 0xc000, 0xffff_u16] {
        let (mut client, mut server, _) = Host::pair();
        let path = client.path_to(&server);
        let id = client.agent.connect(at(0), path, &connect_request());
        id.expect("the request is valid");
        let mut req = client.sent().remove(0);
        for offset in LIDS_AT {
            req.mad[offset..offset + 2].copy_from_slice(&lid.to_be_bytes());
        }
        server.receive(at(0), &req);
        assert!(
            matches!(server.event(), Event::Requested { .. }),
            "{lid:#x}"
        );
        assert_eq!(kinds(&server.sent()), [""; 0], "{lid:#x}");
    }
}

// shows: 12.9-consumer-reject
#[test]
fn the_passive_side_rejects_a_request() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let active = client.agent.connect(at(0), path, &connect_request());
    let req = client.deliver(at(0), &mut server, "REQ");
    let passive = server.event().connection();
    let reason = RejectReason::CONSUMER;
    server
        .agent
        .reject(at(0), passive, reason, b"no")
        .expect("the state allows it");
    let lost = server.sent();
    assert_eq!(rej(&lost[0]).rejected, Rejected::Req);
    // The REJ was lost: the repeated message gets the same answer, and the owner gets no event.
    server.receive(at(1), &req);
    let again = server.deliver(at(1), &mut client, "REJ");
    assert_eq!(again.mad, lost[0].mad);
    let rejected = Event::Rejected {
        connection: active.expect("the request is valid"),
        reason,
        private: padded(b"no", 148).into(),
    };
    assert_eq!(client.event(), rejected);
    assert_eq!(client.agent.connections(), 0);
    server.wait_until(at(0) + LONG);
    assert_eq!((server.agent.connections(), server.events()), (0, vec![]));
}

/// After an MRA, a peer retransmits its REQ for longer than answers are kept, and each REJ can be lost.
#[test]
fn a_req_that_is_repeated_for_minutes_stays_rejected() {
    let (mut client, mut server, _) = Host::pair();
    let path = client.path_to(&server);
    let requested = client.agent.connect(at(0), path, &connect_request());
    requested.expect("the request is valid");
    let req = client.deliver(at(0), &mut server, "REQ");
    let passive = server.event().connection();
    let refused = server
        .agent
        .reject(at(0), passive, RejectReason::CONSUMER, &[]);
    refused.expect("the state allows it");
    let mut sent = server.sent();
    let rejection = sent.remove(0).mad;
    for seconds in [20, 40, 60, 80] {
        let now = at(0) + Duration::from_secs(seconds);
        sent = server.wait_until(now);
        server.receive(now, &req);
        sent.extend(server.sent());
        let mads: Vec<_> = sent.iter().map(|sent| sent.mad).collect();
        assert_eq!((mads, server.events()), (vec![rejection], vec![]));
    }
    server.wait_until(at(0) + LONG + LONG);
    assert_eq!(server.agent.connections(), 0);
}

// shows: 12.9-active-reject
#[test]
fn the_active_side_rejects_a_reply() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    let rep = server.deliver(at(0), &mut client, "REP");
    client.event();
    let reason = RejectReason::CONSUMER;
    client
        .agent
        .reject(at(0), active, reason, b"why")
        .expect("the state allows it");
    let lost = client.sent();
    assert_eq!(rej(&lost[0]).rejected, Rejected::Rep);
    client.receive(at(1), &rep);
    client.deliver(at(1), &mut server, "REJ");
    let rejected = Event::Rejected {
        connection: passive,
        reason,
        private: padded(b"why", 148).into(),
    };
    assert_eq!(server.event(), rejected);
    for host in [&mut client, &mut server] {
        host.wait_until(at(0) + LONG);
        assert_eq!((host.agent.connections(), host.events()), (0, vec![]));
    }
}

// shows: 12.9-rejected-late, 12.9-give-up, 12.6.7.2-timeout-info, 12.6.7-unknown-remote-id
#[test]
fn a_side_that_gives_up_sends_a_rej() {
    // The client, before it has heard anything.
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    client.agent.forget(at(0), active);
    let sent = client.deliver(at(0), &mut server, "REJ");
    assert_eq!(rej(&sent).info.bytes(), 1_u64.to_be_bytes());
    let reason = RejectReason::TIMEOUT;
    let event = server.event();
    assert!(
        matches!(event, Event::Rejected { connection, reason: r, .. } if (connection, r) == (passive, reason))
    );
    assert_eq!(client.agent.connections(), 0);

    // The server, which waits for the RTU.
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    let rep = server.deliver(at(0), &mut client, "REP");
    client.event();
    client.ready(at(0), active, &[]);
    client.sent();
    let sent = server.wait_until(at(0) + LONG);
    assert_eq!(kinds(&sent[..6]), ["REP"; 6]);
    assert!(sent.iter().take(6).all(|again| again.mad == rep.mad));
    let unreachable = Event::Unreachable {
        connection: passive,
    };
    assert_eq!(server.event(), unreachable);
    assert_eq!(rej(&sent[6]).reason, RejectReason::TIMEOUT);
    // The client considers the connection established.
    client.receive(at(0), &sent[6]);
    assert!(
        matches!(client.event(), Event::Disconnected { connection, .. } if connection == active)
    );
}

/// The owner gives a half-open connection up, and the REJ is lost or crosses the RTU.
// shows: 12.9-rejected-late
#[test]
fn an_rtu_for_a_connection_that_was_given_up_gets_the_rej_again() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    client.event();
    server.agent.forget(at(0), passive);
    let lost = server.sent().remove(0);
    client.ready(at(0), active, &[]);
    let rtu = client.deliver(at(1), &mut server, "RTU");
    let answer = server.deliver(at(1), &mut client, "REJ");
    assert_eq!(answer.mad, lost.mad);
    assert!(
        matches!(client.event(), Event::Disconnected { connection, .. } if connection == active)
    );
    // One answer for each RTU.
    server.receive(at(2), &rtu);
    assert_eq!(kinds(&server.sent()), ["REJ"]);
    for host in [&mut client, &mut server] {
        host.wait_until(at(2) + LONG);
        assert_eq!(host.agent.connections(), 0);
    }
}

/// The first REPs follow each other densely, because a lost RTU delays the server's program.
// shows: 12.9-repeat
#[test]
fn the_first_reps_follow_densely_and_all_are_few() {
    let (mut client, mut server, _) = Host::pair();
    let (_, passive) = client.request(at(0), &mut server);
    server.accept(at(0), passive);
    let mut sent = Vec::new();
    while let Some(due) = server.agent.next_timeout() {
        sent.extend(server.sent().iter().map(Sent::kind).map(|kind| (kind, due)));
        server.agent.handle_timeouts(due);
    }
    // Each entry has the end of the wait that followed the message.
    let ends: Vec<_> = sent.iter().take(7).map(|&(_, end)| end).collect();
    let timeout = ends[0].saturating_duration_since(at(0));
    let waits: Vec<_> = ends
        .iter()
        .map(|end| end.saturating_duration_since(at(0)).as_nanos() / timeout.as_nanos())
        .collect();
    assert_eq!(waits, [1, 2, 4, 7, 10, 13, 16]);
    let kinds: Vec<_> = sent.iter().map(|&(kind, _)| kind).collect();
    assert_eq!(kinds[..7], ["REP"; 7]);
    assert_eq!(kinds[7..], ["REJ"]);
}

// shows: 12.9-unknown-rep
#[test]
fn a_rep_for_an_unknown_connection_is_rejected() {
    let (mut client, mut server, _) = Host::pair();
    let (active, passive) = client.request(at(0), &mut server);
    client.agent.forget(at(0), active);
    client.sent();
    server.accept(at(0), passive);
    server.deliver(at(0), &mut client, "REP");
    let sent = client.deliver(at(0), &mut server, "REJ");
    assert_eq!(rej(&sent).reason, RejectReason::INVALID_COMMUNICATION_ID);
    assert!(matches!(server.event(), Event::Rejected { .. }));
    assert_eq!(client.agent.connections(), 0);
}

#[test]
fn a_request_counts_against_the_backlog_until_the_owner_notices_it() {
    let mut server = Host::new(2);
    server
        .agent
        .listen(at(0), SERVICE, None, 2)
        .expect("the service is free");
    let mut client = Host::new(1);
    let path = client.path_to(&server);
    let mut request = |server: &mut Host| {
        let mut request = connect_request();
        request.qpn = roce_cm::Qpn::from_bits(100 + client.agent.connections() as u32);
        client
            .agent
            .connect(at(0), path, &request)
            .expect("the request is valid");
        let sent = client.sent();
        server.receive_all(at(0), &sent);
        server.events()
    };
    let first = request(&mut server)[0].connection();
    assert_eq!(request(&mut server).len(), 1);
    assert_eq!(request(&mut server), []);
    assert_eq!(server.agent.counters().backlog_full, 1);
    assert_eq!(server.sent().len(), 0, "the peer retransmits the request");
    server.agent.leave_backlog(first);
    server.agent.leave_backlog(first);
    assert_eq!(request(&mut server).len(), 1);
    assert_eq!(request(&mut server), []);
    let reason = RejectReason::NO_RESOURCES;
    server
        .agent
        .reject(at(0), first, reason, &[])
        .expect("the state allows it");
    assert_eq!(
        request(&mut server),
        [],
        "the first request had left the backlog already"
    );
}

#[test]
fn stop_listening_rejects_unnoticed_requests() {
    let (mut client, mut server, listener) = Host::pair();
    let path = client.path_to(&server);
    let (_, noticed) = client.request(at(0), &mut server);
    server.agent.leave_backlog(noticed);
    let mut request = connect_request();
    request.qpn = roce_cm::Qpn::from_bits(0x99);
    let refused = client
        .agent
        .connect(at(0), path, &request)
        .expect("the request is valid");
    client.deliver(at(0), &mut server, "REQ");
    server.agent.stop_listening(at(0), listener);
    assert_eq!(
        server.events(),
        [],
        "the owner did not notice the second request"
    );
    server.deliver(at(0), &mut client, "REJ");
    assert_eq!(client.event().connection(), refused);
    server.accept(at(0), noticed);
    assert_eq!(
        reason_of_next(&mut client, &mut server),
        RejectReason::INVALID_SERVICE_ID
    );
}

fn reason_of_next(client: &mut Host, server: &mut Host) -> RejectReason {
    server.sent();
    let path = client.path_to(server);
    let mut request = connect_request();
    request.qpn = roce_cm::Qpn::from_bits(0x98);
    client
        .agent
        .connect(at(0), path, &request)
        .expect("the request is valid");
    client.deliver(at(0), server, "REQ");
    rej(&server.wait_until(at(1000))[0]).reason
}

#[test]
fn a_listener_with_an_address_takes_precedence() {
    let (mut client, mut server, any) = Host::pair();
    let local = Some(server.address);
    let own = server
        .agent
        .listen(at(0), SERVICE, local, 1)
        .expect("the other listener has no address");
    let service = SERVICE;
    let twice = Err(CmError::ServiceInUse { service });
    assert_eq!(server.agent.listen(at(0), SERVICE, local, 1), twice);
    assert_eq!(server.agent.listen(at(0), SERVICE, None, 1), twice);
    let path = client.path_to(&server);
    client
        .agent
        .connect(at(0), path, &connect_request())
        .expect("the request is valid");
    client.deliver(at(0), &mut server, "REQ");
    assert!(matches!(server.event(), Event::Requested { listener, .. } if listener == own));
    server.agent.stop_listening(at(0), own);
    server.agent.stop_listening(at(0), any);
    assert!(server.agent.listen(at(0), SERVICE, None, 1).is_ok());
}
