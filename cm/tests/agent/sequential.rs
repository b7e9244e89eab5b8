//! Many connections, one after the other, with the QPNs that a NIC draws.

use crate::world::{Host, acceptance, at, connect_request};
use roce_cm::{Agent, Config, Duration, Event, Instant, Qpn, QpnRange};
use roce_stack::{CompletionQueue, CqId, Nic, NicConfig, PdId, QpInit, QpKind, QueueLimits};
use std::sync::Arc;

/// A NIC that only creates and destroys QPs.
struct Qps {
    nic: Nic,
    init: QpInit,
}

impl Qps {
    /// In the part of the host with this number.
    fn new(host: u8, seed: u8) -> Self {
        let mut nic = Nic::new(&NicConfig {
            seed: [seed; 32],
            max_packet_bytes: 1500,
            window_bytes: 1 << 16,
        });
        nic.draw_qpns_from(QpnRange::new(host).expect("a part"));
        let cq = Arc::new(CompletionQueue::new(CqId(0), 1));
        let limits = QueueLimits {
            depth: 1,
            max_sge: 1,
        };
        let pd: PdId = nic.alloc_pd();
        Self {
            init: QpInit {
                kind: QpKind::Rc,
                pd,
                send_cq: Arc::clone(&cq),
                recv_cq: cq,
                send: limits,
                recv: limits,
                max_inline: 0,
                signal_all: false,
            },
            nic,
        }
    }

    fn create(&mut self) -> Qpn {
        self.nic.create_qp(self.init.clone()).expect("one is free")
    }

    fn destroy(&mut self, qpn: Qpn) {
        assert!(self.nic.destroy_qp(qpn));
    }
}

/// Requests a connection from a new QP.
fn request(now: Instant, client: &mut Host, server: &Host, qps: &mut Qps) -> Qpn {
    let mut request = connect_request();
    request.qpn = qps.create();
    let path = client.path_to(server);
    let requested = client.agent.connect(now, path, &request);
    requested.expect("the request is valid");
    request.qpn
}

/// Delivers all messages of both hosts.
fn deliver(now: Instant, client: &mut Host, server: &mut Host) {
    let (from_client, from_server) = (client.sent(), server.sent());
    server.receive_all(now, &from_client);
    client.receive_all(now, &from_server);
}

/// Accepts what is requested from the server, with new QPs. Returns their numbers.
fn accept_all(now: Instant, server: &mut Host, qps: &mut Qps) -> Vec<Qpn> {
    let mut accepted = Vec::new();
    for event in server.events() {
        match event {
            Event::Requested { connection, .. } => {
                let mut acceptance = acceptance();
                acceptance.qpn = qps.create();
                let sent = server.agent.accept(now, connection, &acceptance);
                sent.expect("the state allows it");
                accepted.push(acceptance.qpn);
            }
            Event::DisconnectRequested { connection, .. } => {
                server.disconnect(now, connection, &[])
            }
            Event::Rejected { reason, .. } => panic!("{reason:?}"),
            _ => {}
        }
    }
    accepted
}

/// Each connection ends before the next one begins, 100 µs later. So 5,000 are in time wait.
#[test]
fn connections_one_after_the_other_are_never_refused() {
    let (mut client, mut server, _) = Host::pair();
    let (mut near, mut far) = (Qps::new(1, 1), Qps::new(2, 2));
    for n in 0..20_000 {
        let now = at(0) + n * Duration::from_micros(100);
        client.agent.handle_timeouts(now);
        server.agent.handle_timeouts(now);
        let qpn = request(now, &mut client, &server, &mut near);
        deliver(now, &mut client, &mut server);
        let accepted = accept_all(now, &mut server, &mut far);
        assert_eq!(accepted.len(), 1, "connection {n}");
        deliver(now, &mut client, &mut server);
        let events = client.events();
        let replied = events.iter().find_map(|event| match event {
            Event::Replied { connection, .. } => Some(*connection),
            _ => None,
        });
        let id = replied.unwrap_or_else(|| panic!("connection {n}: {events:?}"));
        client.ready(now, id, &[]);
        client.disconnect(now, id, &[]);
        for _ in 0..2 {
            deliver(now, &mut client, &mut server);
            accept_all(now, &mut server, &mut far);
        }
        client.events();
        near.destroy(qpn);
        far.destroy(accepted[0]);
    }
    assert_eq!(server.agent.counters().probes, 0);
}

/// A client with many connections is killed, which the server does not notice, and its successor
/// makes as many. Some of its QPNs are those of its predecessors.
#[test]
fn the_successor_of_a_killed_client_is_not_refused() {
    const CONNECTIONS: usize = 1500;
    let (_, mut server, _) = Host::pair();
    let mut far = Qps::new(2, 99);
    let mut now = at(0);
    for generation in 0..20 {
        let mut client = Host::new(1);
        let part = QpnRange::new(1).expect("a part");
        client.agent = Agent::new(Config::new([generation; 32], part, 1));
        let mut near = Qps::new(1, generation);
        let mut replied = 0;
        // A connection every millisecond, and then time for requests that are repeated.
        for ms in 0..CONNECTIONS + 8000 {
            if ms < CONNECTIONS {
                request(now, &mut client, &server, &mut near);
            }
            for _ in 0..3 {
                deliver(now, &mut client, &mut server);
                accept_all(now, &mut server, &mut far);
                for event in client.events() {
                    match event {
                        Event::Replied { connection, .. } => {
                            client.ready(now, connection, &[]);
                            replied += 1;
                        }
                        other => panic!("generation {generation}: {other:?}"),
                    }
                }
            }
            if replied == CONNECTIONS {
                break;
            }
            now = now + Duration::from_millis(1);
            client.agent.handle_timeouts(now);
            server.agent.handle_timeouts(now);
        }
        assert_eq!(replied, CONNECTIONS, "generation {generation}");
        client.sent();
    }
    // Otherwise no QPN was drawn twice, and the test shows nothing.
    assert!(server.agent.counters().probe_answers > 100);
}
