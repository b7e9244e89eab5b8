//! Every loss of two packets, and every delay or duplication of one, in short exchanges: missing
//! packets are retransmitted soon, and few others are.
//!
//! The total cost of all cases is bounded by the last measurement, so a change that makes recovery
//! worse for some cases fails here. Time is virtual: the figures are the same on every machine.

use crate::sim::{A, B, Fate, Pair, Sent, Setup, pattern};
use roce_stack::{Duration, SendOp, Stat};

const MTU: usize = 1024;
/// The number of packets of a longer message.
const LONG: usize = 6;
/// The offset of the bytes of a READ in the peer's memory, and of a WRITE in local memory.
const FROM: usize = 0;
/// The offset of their destination.
const TO: usize = 32 * MTU;

/// The peer of the requester, and whether the requester already knows its behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// It keeps out-of-order packets.
    Keeps { known: bool },
    /// It discards them, as the specification allows.
    Discards { known: bool },
    /// The requester has room for two out-of-order responses.
    LittleRoom,
    /// It has no room for any.
    NoRoom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Talk {
    /// SENDs and WRITEs of several packets.
    Data,
    /// READs, an atomic and SENDs.
    Fetches,
}

/// The cost of conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    timeouts: u64,
    /// Packets from the requester, and to it.
    requests: u64,
    answers: u64,
    /// The time until the last answer, summed up.
    micros: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.timeouts += other.timeouts;
        self.requests += other.requests;
        self.answers += other.answers;
        self.micros += other.micros;
    }

    /// Asserts that no cost exceeds its bound.
    #[track_caller]
    fn assert_within(self, [timeouts, requests, answers, micros]: [u64; 4]) {
        let bound = Self {
            timeouts,
            requests,
            answers,
            micros,
        };
        let within = self.timeouts <= timeouts
            && self.requests <= requests
            && self.answers <= answers
            && self.micros <= micros;
        assert!(within, "{self:?} instead of {bound:?}");
    }
}

/// Two ends with a round trip of 10 us, which they have measured, and which may know each other's
/// behaviour.
fn ends(peer: Peer) -> Pair {
    let mut pair = Pair::new(Setup::default());
    for side in [A, B] {
        pair.links[side].latency = Duration::from_micros(5);
    }
    match peer {
        Peer::Keeps { .. } => {}
        Peer::Discards { .. } => pair.nodes[B].nic.set_reorder_limit(0),
        Peer::LittleRoom => pair.nodes[A].nic.set_reorder_limit(2),
        Peer::NoRoom => pair.nodes[A].nic.set_reorder_limit(0),
    }
    let (local, remote) = (pair.mem(A, 8 * MTU), pair.mem(B, 8 * MTU));
    for n in 0..20 {
        pair.post(A, n, SendOp::Read(remote.remote(0)), &[local.sge(0, 8)]);
        pair.run();
        pair.assert_sent(A, &[n]);
    }
    if matches!(
        peer,
        Peer::Keeps { known: true } | Peer::Discards { known: true }
    ) {
        let first = pair.links[A].log.len();
        let mut n = first;
        pair.links[A].script(move |_| {
            n += 1;
            if n == first + 2 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let op = SendOp::Write(remote.remote(0));
        pair.post(A, 1, op, &[local.sge(0, 8 * MTU)]);
        pair.run();
        pair.assert_sent(A, &[1]);
    }
    pair
}

/// A conversation in which `fate` decides about packets by direction and number.
fn converse(peer: Peer, talk: Talk, fate: impl Fn(usize, usize) -> Fate + Clone + 'static) -> Cost {
    let mut pair = ends(peer);
    let mem = [pair.mem(A, 64 * MTU), pair.mem(B, 64 * MTU)];
    for (side, mem) in [A, B].into_iter().zip(&mem) {
        mem.write(FROM, &pattern(side as u64, 2 * LONG * MTU));
    }
    for side in [A, B] {
        let (fate, mut n) = (fate.clone(), 0);
        pair.links[side].script(move |_| {
            n += 1;
            fate(side, n - 1)
        });
    }
    let timeouts = |pair: &Pair| pair.nodes[A].nic.counters().stat(Stat::Timeouts);
    let before = (
        timeouts(&pair),
        [A, B].map(|side| pair.links[side].log.len()),
    );
    let start = pair.now;
    let [local, remote] = &mem;
    for n in 0..2 {
        pair.post_recv(B, n, &[remote.sge(63 * MTU, 8)]);
    }
    let (first, second) = (0, LONG * MTU);
    let here = |at| local.sge(if talk == Talk::Data { FROM } else { TO } + at, LONG * MTU);
    let there = |at| remote.remote(if talk == Talk::Data { TO } else { FROM } + at);
    let word = remote.remote(60 * MTU);
    let (long, middle): (fn(_) -> SendOp, _) = match talk {
        Talk::Data => (SendOp::Write, SendOp::Write(word)),
        Talk::Fetches => (
            SendOp::Read,
            SendOp::FetchAdd {
                remote: word,
                add: 1,
            },
        ),
    };
    pair.post(A, 1, long(there(first)), &[here(first)]);
    pair.post(A, 2, middle, &[local.sge(62 * MTU, 8)]);
    pair.post(A, 3, SendOp::Send, &[local.sge(63 * MTU, 8)]);
    pair.post(A, 4, long(there(second)), &[here(second)]);
    pair.post(A, 5, SendOp::Send, &[local.sge(63 * MTU, 8)]);
    pair.run();
    pair.assert_sent(A, &[1, 2, 3, 4, 5]);
    pair.assert_received(B, &[0, 1]);
    let (from, to) = if talk == Talk::Data { (A, B) } else { (B, A) };
    assert!(mem[to].read(TO, 2 * LONG * MTU) == pattern(from as u64, 2 * LONG * MTU));
    let sent = |side: usize| &pair.links[side].log[before.1[side]..];
    let last = sent(B).last().map_or(start, |Sent { at, .. }| *at);
    let nanos = last.saturating_duration_since(start).as_nanos();
    Cost {
        timeouts: timeouts(&pair) - before.0,
        requests: sent(A).len() as u64,
        answers: sent(B).len() as u64,
        micros: u64::try_from(nanos / 1000).expect("less than an age"),
    }
}

/// All losses of one or two packets of one direction.
fn losses(peer: Peer, talk: Talk, side: usize) -> Cost {
    let mut total = Cost::default();
    for i in 0..20 {
        for j in i..22 {
            let lost = move |s, n| s == side && (n == i || n == j);
            total.add(converse(peer, talk, move |s, n| {
                if lost(s, n) { Fate::Drop } else { Fate::Pass }
            }));
        }
    }
    total
}

/// All losses of three packets out of a few consecutive ones.
fn triples(peer: Peer, talk: Talk, side: usize) -> Cost {
    let mut total = Cost::default();
    for i in 0..14 {
        for j in i + 1..i + 8 {
            for k in j + 1..i + 16 {
                total.add(converse(peer, talk, move |s, n| {
                    if s == side && [i, j, k].contains(&n) {
                        Fate::Drop
                    } else {
                        Fate::Pass
                    }
                }));
            }
        }
    }
    total
}

/// One packet is lost, and another of the same direction is late or duplicated.
fn mixed(peer: Peer, talk: Talk, side: usize) -> Cost {
    let mut total = Cost::default();
    for i in 0..14_usize {
        for j in i.saturating_sub(3)..i + 6 {
            for micros in [3, 12] {
                let time = Duration::from_micros(micros);
                for what in [Fate::Delay(time), Fate::Echo(time)] {
                    total.add(converse(peer, talk, move |s, n| {
                        if s != side {
                            Fate::Pass
                        } else if n == i {
                            Fate::Drop
                        } else if n == j {
                            what
                        } else {
                            Fate::Pass
                        }
                    }));
                }
            }
        }
    }
    total
}

/// One packet, of either direction, is late or duplicated.
fn delays(peer: Peer, talk: Talk) -> Cost {
    let mut total = Cost::default();
    for side in [A, B] {
        for i in 0..20 {
            for micros in [1, 4, 8, 12, 20, 35] {
                let time = Duration::from_micros(micros);
                for what in [Fate::Delay(time), Fate::Echo(time)] {
                    total.add(converse(peer, talk, move |s, n| {
                        if s == side && n == i {
                            what
                        } else {
                            Fate::Pass
                        }
                    }));
                }
            }
        }
    }
    total
}

/// The costs of losses of requests, losses of answers, and delays and copies: timeouts, requests,
/// answers, and total microseconds.
type Bounds = [[u64; 4]; 3];

fn assert_costs(talk: Talk, bounds: &[(Peer, Bounds)]) {
    for (peer, [requests, answers, late]) in bounds {
        println!("{talk:?} with {peer:?}");
        losses(*peer, talk, A).assert_within(*requests);
        losses(*peer, talk, B).assert_within(*answers);
        delays(*peer, talk).assert_within(*late);
    }
}

#[test]
fn losses_among_sends_and_writes_cost_little() {
    let bounds = [
        (
            Peer::Keeps { known: false },
            [
                [0, 4195, 823, 7620],
                [0, 3842, 546, 4710],
                [0, 7294, 1221, 9376],
            ],
        ),
        (
            Peer::Keeps { known: true },
            [
                [0, 4402, 963, 5700],
                [0, 3774, 774, 3205],
                [0, 7367, 1681, 7126],
            ],
        ),
        (
            Peer::Discards { known: false },
            [
                [0, 5569, 936, 8870],
                [0, 3842, 546, 4710],
                [0, 7612, 1229, 9705],
            ],
        ),
        (
            Peer::Discards { known: true },
            [
                [0, 6497, 918, 5090],
                [0, 3798, 774, 3205],
                [0, 8133, 1663, 7186],
            ],
        ),
    ];
    assert_costs(Talk::Data, &bounds);
}

#[test]
fn losses_among_reads_and_atomics_cost_little() {
    let bounds = [
        (
            Peer::Keeps { known: false },
            [
                [0, 1475, 3588, 5330],
                [0, 1562, 3822, 6410],
                [0, 2519, 7001, 8354],
            ],
        ),
        (
            Peer::Keeps { known: true },
            [
                [0, 1449, 3840, 3975],
                [0, 1562, 4072, 5710],
                [0, 2522, 7472, 6191],
            ],
        ),
        (
            Peer::Discards { known: false },
            [
                [0, 1532, 3613, 5710],
                [0, 1562, 3822, 6410],
                [0, 2531, 6993, 8375],
            ],
        ),
        (
            Peer::Discards { known: true },
            [
                [0, 1617, 3840, 4095],
                [0, 1562, 4072, 5700],
                [0, 2568, 7490, 6201],
            ],
        ),
        (
            Peer::LittleRoom,
            [
                [0, 1475, 3588, 5330],
                [0, 1845, 4480, 8590],
                [0, 2600, 7181, 8814],
            ],
        ),
    ];
    assert_costs(Talk::Fetches, &bounds);
}

/// Three losses, and a loss with a late or duplicated packet, all from `side`.
fn assert_costs_of_more(talk: Talk, side: usize, bounds: &[(Peer, [[u64; 4]; 2])]) {
    for (peer, [three, late]) in bounds {
        println!("{talk:?} with {peer:?}");
        triples(*peer, talk, side).assert_within(*three);
        mixed(*peer, talk, side).assert_within(*late);
    }
}

#[test]
fn more_losses_among_sends_and_writes_cost_little() {
    let bounds = [
        (
            Peer::Keeps { known: true },
            [[0, 20978, 5112, 35285], [0, 8513, 2191, 10270]],
        ),
        (
            Peer::Discards { known: true },
            [[0, 28230, 4193, 24415], [0, 11974, 2025, 9429]],
        ),
    ];
    assert_costs_of_more(Talk::Data, A, &bounds);
}

#[test]
fn more_losses_among_responses_cost_little() {
    let bounds = [
        (
            Peer::Keeps { known: false },
            [[0, 7639, 17521, 40700], [0, 2991, 7351, 11838]],
        ),
        (
            Peer::LittleRoom,
            [[0, 8596, 20208, 48200], [0, 3466, 8498, 15074]],
        ),
        (
            Peer::NoRoom,
            [[0, 8501, 23417, 38602], [0, 3279, 9059, 11950]],
        ),
    ];
    assert_costs_of_more(Talk::Fetches, B, &bounds);
}
