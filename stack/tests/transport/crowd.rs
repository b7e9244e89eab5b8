//! Many QPs between the same two hosts, which exceed their shared window.

use crate::sim::{A, B, Hand, Mem, Pair, Setup};
use roce_stack::{QpKind, SendOp, SendRequest, Stat, WcStatus};
use roce_wire::{Packet, PathMtu, Qpn};
use std::collections::HashMap;

/// The parameters of a test.
struct Crowd {
    qps: usize,
    /// The length of the message of QP n is `lengths[n % lengths.len()]`.
    lengths: &'static [usize],
    /// The number of packets that the sender's port holds.
    port_room: usize,
    /// The minimum number of messages that each QP sends, one at a time.
    rounds: usize,
}

impl Crowd {
    /// Runs the test: each QP posts its next message when the previous one has completed. Returns
    /// the maximum number of other QPs' messages that completed between the posting of a message
    /// and its completion.
    fn longest_wait(&self) -> usize {
        let mut pair = Pair::new(Setup {
            cq_entries: 2 * self.qps,
            max_packets: 10_000_000,
            ..Setup::default()
        });
        let longest = *self.lengths.iter().max().expect("a length");
        let mem = [pair.mem(A, longest), pair.mem(B, longest)];
        let qpns: Vec<Qpn> = (0..self.qps).map(|_| connected(&mut pair)).collect();
        pair.nodes[A].port.max_queued = self.port_room;
        let length_of: HashMap<Qpn, usize> = qpns
            .iter()
            .copied()
            .zip(self.lengths.iter().copied().cycle())
            .collect();
        // Completions so far; at the posting of each QP's message.
        let mut completed = 0;
        let mut posted_at: HashMap<Qpn, usize> = HashMap::new();
        let mut rounds: HashMap<Qpn, usize> = HashMap::new();
        for qpn in &qpns {
            post(&mut pair, *qpn, &mem, length_of[qpn]);
            posted_at.insert(*qpn, 0);
        }
        let mut waited = 0;
        while rounds.len() < self.qps || rounds.values().any(|n| *n < self.rounds) {
            assert!(pair.step(), "idle, with {completed} completed");
            for done in pair.nodes[A].sent() {
                assert_eq!(done.status, WcStatus::Success);
                let qpn = done.qpn;
                waited = waited.max(completed - posted_at[&qpn]);
                completed += 1;
                *rounds.entry(qpn).or_default() += 1;
                post(&mut pair, qpn, &mem, length_of[&qpn]);
                posted_at.insert(qpn, completed);
            }
        }
        // No QP stops in mid-message without an outstanding acknowledgement.
        let counters = pair.nodes[A].nic.counters();
        assert_eq!(counters.stat(Stat::Timeouts), 0);
        assert_eq!(counters.stat(Stat::Retransmitted), 0);
        waited
    }
}

fn connected(pair: &mut Pair) -> Qpn {
    let queue = pair.setup.queue;
    for node in &mut pair.nodes {
        node.qpn = node.another_qp(QpKind::Rc, queue);
    }
    for side in [A, B] {
        pair.connect(side);
    }
    pair.nodes[A].qpn
}

fn post(pair: &mut Pair, qpn: Qpn, mem: &[Mem; 2], length: usize) {
    let wr = SendRequest::new(0, SendOp::Write(mem[B].remote(0)), mem[A].sge(0, length));
    let node = &mut pair.nodes[A];
    node.nic.post_send(pair.now, qpn, &wr).expect("posted");
}

/// A message waits for about one message of each other QP, however soon those post again.
#[test]
fn nobody_starves_in_a_crowd() {
    let crowd = Crowd {
        qps: 300,
        lengths: &[16_000],
        port_room: usize::MAX,
        rounds: 20,
    };
    let waited = crowd.longest_wait();
    assert!(waited <= 2 * crowd.qps, "{waited} of {}", crowd.qps);
}

/// A message of four turns waits for about four messages of each other QP.
#[test]
fn long_messages_among_short_ones_do_not_starve() {
    let crowd = Crowd {
        qps: 100,
        lengths: &[100, 250_000, 4_000, 30_000, 1],
        port_room: usize::MAX,
        rounds: 10,
    };
    let waited = crowd.longest_wait();
    assert!(waited <= 8 * crowd.qps, "{waited} of {}", crowd.qps);
}

/// A QP that has to wait for the port does not starve either.
#[test]
fn nobody_starves_behind_a_small_port() {
    let crowd = Crowd {
        qps: 100,
        lengths: &[16_000, 100_000],
        port_room: 7,
        rounds: 10,
    };
    let waited = crowd.longest_wait();
    assert!(waited <= 4 * crowd.qps, "{waited} of {}", crowd.qps);
}

/// A process of this host that is stopped makes no room for packets to itself.
#[test]
fn a_destination_without_room_delays_no_other() {
    let mut pair = Pair::new(Setup::default());
    let mem = [pair.mem(A, 100), pair.mem(B, 100)];
    let mut qpns = || (connected(&mut pair), pair.nodes[B].qpn);
    let [stuck, first, second] = [qpns(), qpns(), qpns()];
    pair.nodes[A].port.full_for = Some(stuck.1);
    for (qpn, _) in [first, stuck, second] {
        post(&mut pair, qpn, &mem, 100);
    }
    let now = pair.now;
    let sent = |pair: &mut Pair| {
        let node = &mut pair.nodes[A];
        node.nic.transmit(now, &mut node.port);
        let sent = std::mem::take(&mut node.port.out);
        let packets = sent
            .iter()
            .map(|sent| Packet::parse(&sent.bytes).expect("well-formed"));
        packets
            .map(|packet| packet.bth.dest_qpn)
            .collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut pair), [first.1, second.1]);
    assert_eq!(sent(&mut pair), []);
    post(&mut pair, first.0, &mem, 100);
    assert_eq!(sent(&mut pair), [first.1]);
    pair.nodes[A].port.full_for = None;
    assert_eq!(sent(&mut pair), [stuck.1]);
}

/// The last packet of a turn asks for an acknowledgement. Otherwise, if the next turn found no
/// room, the packets in flight would hold room that is never released. A turn has 60 packets, which
/// are whole datagrams of 15 packets of 4 KiB.
#[test]
fn a_turn_ends_with_a_question() {
    const TURN: usize = 60;
    let mut hand = Hand::new(Setup {
        mtu: PathMtu::Mtu256,
        ..Setup::default()
    });
    let mem = hand.mem(256 * 3 * TURN);
    let op = SendOp::Write(mem.remote(0));
    hand.post(1, op, &[mem.sge(0, 256 * 3 * TURN)]);
    let out = hand.out();
    let asks = (0..out.len()).filter(|n| out[*n].bth.ack_req);
    assert_eq!(
        asks.collect::<Vec<_>>(),
        [TURN - 1, 2 * TURN - 1, 3 * TURN - 1]
    );
}

/// Another QP uses all the room that one QP leaves, to the last packet, and no more.
#[test]
fn the_shared_window_is_used_to_its_end() {
    const PACKET: usize = 1024;
    let mut pair = Pair::new(Setup::default());
    let window = pair.setup.window_bytes / PACKET;
    let mem = [pair.mem(A, window * PACKET), pair.mem(B, window * PACKET)];
    let first = connected(&mut pair);
    let second = connected(&mut pair);
    post(&mut pair, first, &mem, (window - 10) * PACKET);
    post(&mut pair, second, &mem, 20 * PACKET);
    let (now, node) = (pair.now, &mut pair.nodes[A]);
    while node.nic.wants_to_send() {
        node.nic.transmit(now, &mut node.port);
    }
    assert_eq!(node.port.out.len(), window);
}
