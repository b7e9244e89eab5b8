//! An attacker that knows the addresses and the QPN of a connection and guesses PSNs, and a peer
//! whose packets must still arrive.

use crate::sim::{Hand, Mem, Setup};
use roce_stack::{DropReason, Duration, QpState, RemoteAddr, SendOp, Stat};
use roce_wire::{Aeth, ExtHeaders, NakCode, Opcode, Psn, Syndrome};
use testkit::Dice;

/// The source ports of the peer, and of the attacker, which does not know the peer's.
const PEER: u16 = 0xc123;
const ATTACKER: u16 = 0xc124;

/// More guesses than a QP tolerates.
const GUESSES: u32 = 16;

/// Delivers a WRITE of eight bytes with the value `byte` to the start of `mem`, `distance` PSNs
/// after the first one, from the UDP source port `port`.
fn write(hand: &mut Hand, mem: &Mem, port: u16, distance: u32, byte: u8) {
    let psn = Psn::new(hand.psn.wrapping_add(distance)).get();
    let mut meta = hand.meta();
    meta.src_port = port;
    let bth = hand.bth(Opcode::RC_WRITE_ONLY, psn);
    hand.deliver_from(meta, bth, mem.reth(0, 8), &[byte; 8]);
}

/// Delivers an acknowledge packet from the UDP source port `port`.
fn answer(hand: &mut Hand, port: u16, psn: u32, syndrome: Syndrome) {
    let ext = ExtHeaders {
        aeth: Some(Aeth { syndrome, msn: 0 }),
        ..ExtHeaders::NONE
    };
    let mut meta = hand.meta();
    meta.src_port = port;
    let bth = hand.bth(Opcode::RC_ACKNOWLEDGE, psn);
    hand.deliver_from(meta, bth, ext, &[]);
}

/// A connection whose peer has sent one WRITE, and its memory.
fn connected() -> (Hand, Mem) {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    write(&mut hand, &mem, PEER, 0, 1);
    hand.out();
    assert_eq!(mem.read(0, 8), [1; 8]);
    (hand, mem)
}

/// Delivers as many guesses as put a QP on guard.
fn guess(hand: &mut Hand, mem: &Mem) {
    for n in 0..GUESSES {
        write(hand, mem, ATTACKER, (n + 1) << 18, 9);
    }
    hand.out();
}

#[test]
fn a_peer_may_change_its_source_port() {
    let (mut hand, mem) = connected();
    write(&mut hand, &mem, ATTACKER, 1, 2);
    write(&mut hand, &mem, PEER, 2, 3);
    assert_eq!(mem.read(0, 8), [3; 8]);
    assert_eq!(hand.stat(Stat::PsnGuesses), 0);
}

/// After a change, the new source port is the usual one.
#[test]
fn the_source_port_of_the_last_packet_in_order_counts() {
    let (mut hand, mem) = connected();
    write(&mut hand, &mem, ATTACKER, 1, 2);
    guess(&mut hand, &mem);
    write(&mut hand, &mem, PEER, 2, 9);
    assert_eq!(mem.read(0, 8), [2; 8]);
    write(&mut hand, &mem, ATTACKER, 2, 3);
    assert_eq!(mem.read(0, 8), [3; 8]);
}

/// After some guesses, even the right PSN is refused from another source port, and not answered.
/// The peer notices nothing.
#[test]
fn on_guard_the_source_port_must_be_the_peers() {
    let (mut hand, mem) = connected();
    guess(&mut hand, &mem);
    assert_eq!(hand.stat(Stat::PsnGuesses), u64::from(GUESSES));
    for distance in [0, 1, 2] {
        write(&mut hand, &mem, ATTACKER, distance, 9);
        assert_eq!(mem.read(0, 8), [1; 8], "{distance}");
        assert_eq!(hand.out(), [], "{distance}");
    }
    // The last guess was refused, too.
    assert_eq!(hand.drops(DropReason::WrongSourcePort), 4);
    write(&mut hand, &mem, PEER, 1, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
    assert_eq!(hand.out_one().psn(), hand.psn + 1);
}

/// One guess fewer changes nothing, wherever it comes from.
#[test]
fn a_few_guesses_are_tolerated() {
    let (mut hand, mem) = connected();
    for n in 1..GUESSES {
        write(&mut hand, &mem, PEER, n << 18, 9);
    }
    write(&mut hand, &mem, ATTACKER, 1, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
}

/// Old duplicates, and packets of a peer that sends far ahead, are no guesses.
#[test]
fn a_peer_with_many_packets_in_flight_does_not_guess() {
    let (mut hand, mem) = connected();
    for n in 0..1000 {
        write(&mut hand, &mem, PEER, 1 + n * 65, 9);
        write(&mut hand, &mem, PEER, (n * 65).wrapping_neg(), 9);
    }
    assert_eq!(hand.stat(Stat::PsnGuesses), 0);
}

/// On guard, the QP keeps no early packet, also not from the right port: the attacker would need
/// only one of many PSNs. The peer sends it again.
#[test]
fn on_guard_nothing_early_is_kept() {
    let (mut hand, mem) = connected();
    guess(&mut hand, &mem);
    write(&mut hand, &mem, PEER, 2, 9);
    write(&mut hand, &mem, PEER, 1, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
    assert_eq!(hand.stat(Stat::OutOfOrderKept), 0);
    write(&mut hand, &mem, PEER, 2, 3);
    assert_eq!(mem.read(0, 8), [3; 8]);
}

/// Without a guess, an early packet is kept only if it comes from the usual port.
#[test]
fn an_early_packet_from_another_port_is_not_kept() {
    let (mut hand, mem) = connected();
    write(&mut hand, &mem, ATTACKER, 2, 9);
    assert_eq!(hand.stat(Stat::OutOfOrderKept), 0);
    write(&mut hand, &mem, PEER, 2, 3);
    assert_eq!(hand.stat(Stat::OutOfOrderKept), 1);
    write(&mut hand, &mem, PEER, 1, 2);
    assert_eq!(mem.read(0, 8), [3; 8]);
}

/// A guard ends, and each lasts twice as long as the one before.
#[test]
fn a_guard_ends_and_the_next_one_lasts_longer() {
    let (mut hand, mem) = connected();
    for (distance, seconds) in [(1, 1), (3, 2), (5, 4)] {
        guess(&mut hand, &mem);
        // Guesses during a guard do not lengthen it.
        guess(&mut hand, &mem);
        hand.now = hand.now + Duration::from_millis(seconds * 1000 - 1);
        write(&mut hand, &mem, ATTACKER, distance, 9);
        assert_ne!(mem.read(0, 8), [9; 8], "{seconds}");
        hand.now = hand.now + Duration::from_millis(1);
        write(&mut hand, &mem, ATTACKER, distance, 2);
        assert_eq!(mem.read(0, 8), [2; 8], "{seconds}");
        write(&mut hand, &mem, PEER, distance + 1, 3);
        mem.write(0, &[0; 8]);
        hand.out();
    }
}

/// Forged responses with guessed PSNs, and then forged NAKs with the right ones: they do not end
/// the connection, and do not acknowledge anything.
#[test]
fn on_guard_responses_must_come_from_the_peers_port() {
    let (mut hand, _) = connected();
    let source = hand.mem(8);
    let remote = RemoteAddr { addr: 0, rkey: 7 };
    let first = hand.setup.psn[0];
    let send = |hand: &mut Hand, id: u64| {
        hand.post(id, SendOp::Write(remote), &[source.sge(0, 8)]);
        hand.out();
    };
    send(&mut hand, 0);
    answer(&mut hand, PEER, first, Syndrome::default());
    send(&mut hand, 1);
    for n in 1..=GUESSES {
        let psn = Psn::new(first.wrapping_add(n << 18)).get();
        let access = Syndrome::Nak(NakCode::RemoteAccessError);
        answer(&mut hand, ATTACKER, psn, access);
    }
    assert_eq!(hand.stat(Stat::PsnGuesses), u64::from(GUESSES));
    let access = Syndrome::Nak(NakCode::RemoteAccessError);
    answer(&mut hand, ATTACKER, first + 1, access);
    answer(&mut hand, ATTACKER, first + 1, Syndrome::default());
    assert_eq!(hand.state(), QpState::Rts);
    assert_eq!(hand.drops(DropReason::WrongSourcePort), 3);
    assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((1, 0)));
    answer(&mut hand, PEER, first + 1, Syndrome::default());
    assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((0, 0)));
}

/// A response to a READ that is early is kept only if nobody guesses, and only from the usual port.
#[test]
fn on_guard_no_early_response_is_kept() {
    for (guesses, port, kept) in [(0, PEER, 1), (0, ATTACKER, 0), (GUESSES, PEER, 0)] {
        let (mut hand, _) = connected();
        let (mem, first) = (hand.mem(2048), hand.setup.psn[0]);
        let remote = RemoteAddr { addr: 0, rkey: 7 };
        hand.post(0, SendOp::Write(remote), &[mem.sge(0, 8)]);
        hand.post(1, SendOp::Read(remote), &[mem.sge(0, 2048)]);
        hand.out();
        answer(&mut hand, PEER, first, Syndrome::default());
        for n in 1..=guesses {
            let psn = Psn::new(first.wrapping_add(n << 18)).get();
            answer(&mut hand, ATTACKER, psn, Syndrome::default());
        }
        let mut meta = hand.meta();
        meta.src_port = port;
        let ext = ExtHeaders {
            aeth: Some(Aeth::default()),
            ..ExtHeaders::NONE
        };
        let bth = hand.bth(Opcode::RC_READ_RESPONSE_LAST, first + 2);
        hand.deliver_from(meta, bth, ext, &[5; 1024]);
        assert_eq!(hand.stat(Stat::OutOfOrderKept), kept, "{guesses}, {port}");
    }
}

/// A one-sided initiator receives responses and no requests. Its responder goes by the port of the
/// responses.
#[test]
fn on_guard_a_responder_without_requests_goes_by_the_port_of_responses() {
    let mut hand = Hand::new(Setup::default());
    let (mem, first) = (hand.mem(8), hand.setup.psn[0]);
    let remote = RemoteAddr { addr: 0, rkey: 7 };
    hand.post(0, SendOp::Write(remote), &[mem.sge(0, 8)]);
    hand.out();
    answer(&mut hand, PEER, first, Syndrome::default());
    guess(&mut hand, &mem);
    write(&mut hand, &mem, ATTACKER + 1, 0, 9);
    assert_eq!(mem.read(0, 8), [0; 8]);
    assert_eq!(hand.out(), []);
    write(&mut hand, &mem, PEER, 0, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
}

/// A server that has only received requests so far sends its first one. Its requester goes by the
/// port of the requests.
#[test]
fn on_guard_a_requester_without_responses_goes_by_the_port_of_requests() {
    let (mut hand, mem) = connected();
    let first = hand.setup.psn[0];
    let remote = RemoteAddr { addr: 0, rkey: 7 };
    hand.post(0, SendOp::Write(remote), &[mem.sge(0, 8)]);
    hand.out();
    let access = Syndrome::Nak(NakCode::RemoteAccessError);
    for n in 1..=GUESSES {
        let psn = Psn::new(first.wrapping_add(n << 18)).get();
        answer(&mut hand, ATTACKER, psn, access);
    }
    answer(&mut hand, ATTACKER + 1, first, access);
    assert_eq!(hand.state(), QpState::Rts);
    answer(&mut hand, PEER, first, Syndrome::default());
    assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((0, 0)));
}

/// Before the peer's first packet, its port is not known. On guard, the first guess from a port is
/// the last one from there. The peer, which has not guessed, is not refused.
#[test]
fn on_guard_a_qp_that_has_received_nothing_gives_each_port_one_guess() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    guess(&mut hand, &mem);
    write(&mut hand, &mem, ATTACKER, 1, 9);
    for distance in [1 << 20, 0, 1] {
        write(&mut hand, &mem, ATTACKER, distance, 9);
        assert_eq!(mem.read(0, 8), [0; 8], "{distance}");
        assert_eq!(hand.out(), [], "{distance}");
    }
    write(&mut hand, &mem, PEER, 0, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
    // From now on, the peer's port is known.
    guess(&mut hand, &mem);
    write(&mut hand, &mem, ATTACKER + 1, 1, 9);
    assert_eq!(mem.read(0, 8), [2; 8]);
}

/// The first packet of a burst is lost, and so many follow that the QP is on guard. The peer repeats
/// the first one, from the port of all the others.
#[test]
fn a_burst_whose_first_packet_is_lost_arrives_when_it_is_repeated() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    for distance in (1..2000).chain(0..2000) {
        write(&mut hand, &mem, PEER, distance, distance as u8);
        hand.out();
    }
    assert_eq!(mem.read(0, 8), [1999_u32 as u8; 8]);
    assert_eq!(hand.drops(DropReason::WrongSourcePort), 0);
}

/// PSNs that fall towards the expected one are no burst: the port that sends them has one guess.
#[test]
fn on_guard_a_sweep_downwards_does_not_arrive() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    for distance in (0..3000).rev() {
        write(&mut hand, &mem, ATTACKER, distance, 9);
        hand.out();
    }
    assert_eq!(mem.read(0, 8), [0; 8]);
    write(&mut hand, &mem, PEER, 0, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
}

/// The next guard begins with no port that has guessed.
#[test]
fn a_port_that_has_guessed_is_refused_until_the_guard_ends() {
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    guess(&mut hand, &mem);
    write(&mut hand, &mem, PEER, 1 << 20, 9);
    write(&mut hand, &mem, PEER, 0, 9);
    assert_eq!(mem.read(0, 8), [0; 8]);
    hand.now = hand.now + Duration::from_secs(1);
    guess(&mut hand, &mem);
    write(&mut hand, &mem, PEER, 0, 2);
    assert_eq!(mem.read(0, 8), [2; 8]);
}

/// An attacker that sends consecutive PSNs may begin so close to the right one that no packet
/// counts as a guess. It is noticed all the same, because its port is not the usual one.
#[test]
fn a_sweep_that_begins_near_the_right_psn_does_not_arrive_there() {
    for is_first in [true, false] {
        let (mut hand, mem) = match is_first {
            true => {
                let mut hand = Hand::new(Setup::default());
                let mem = hand.mem(8);
                (hand, mem)
            }
            false => connected(),
        };
        let (begin, right) = (2000_u32, u32::from(!is_first));
        for n in 0..=begin {
            let distance = (right + n).wrapping_sub(begin);
            write(&mut hand, &mem, ATTACKER, distance, 9);
            hand.out();
        }
        assert_ne!(mem.read(0, 8), [9; 8], "{is_first}");
        assert_eq!(hand.stat(Stat::PsnGuesses), 0);
        write(&mut hand, &mem, PEER, right, 2);
        assert_eq!(mem.read(0, 8), [2; 8], "{is_first}");
    }
}

/// The same with responses.
#[test]
fn a_sweep_of_responses_that_begins_near_does_not_arrive() {
    let (mut hand, mem) = connected();
    let first = hand.setup.psn[0];
    let remote = RemoteAddr { addr: 0, rkey: 7 };
    hand.post(0, SendOp::Write(remote), &[mem.sge(0, 8)]);
    hand.out();
    for n in 0..=2000_u32 {
        let psn = Psn::new(first.wrapping_add(n).wrapping_sub(2000)).get();
        let access = Syndrome::Nak(NakCode::RemoteAccessError);
        answer(&mut hand, ATTACKER, psn, access);
    }
    assert_eq!(hand.state(), QpState::Rts);
    answer(&mut hand, PEER, first, Syndrome::default());
    assert_eq!(hand.node.nic.queued(hand.node.qpn), Some((0, 0)));
}

/// A peer that sends from one port after the other, with packets out of order, is never refused.
#[test]
fn a_peer_with_many_ports_does_not_guess() {
    let (mut hand, mem) = connected();
    for n in 0..3000 {
        let port = 0xc000 + (n % 7) as u16;
        write(&mut hand, &mem, port, 2 * n + 2, 9);
        write(&mut hand, &mem, port + 1, 2 * n + 1, 2);
        write(&mut hand, &mem, port + 2, 2 * n + 2, 3);
        assert_eq!(mem.read(0, 8), [3; 8], "{n}");
    }
    assert_eq!(hand.drops(DropReason::WrongSourcePort), 0);
}

/// The widths of the simulated attack, in bits. The PSNs that the attacker tries are 2^18 apart, so
/// it has to guess only the upper six bits.
const PSN_BITS: u32 = 6;
const PORT_BITS: u32 = 4;

/// The packets that the QP has received before the attack.
#[derive(Clone, Copy, Debug)]
enum Received {
    /// A request.
    Request,
    /// A response, and no request.
    Response,
    Nothing,
}

/// The number of packets with which an attacker succeeds that tries every PSN with every port, in
/// random order and each once; `None` if it fails.
fn attack(seed: u64, received: Received) -> Option<u32> {
    let mut dice = Dice::new(seed);
    let mut hand = Hand::new(Setup::default());
    let mem = hand.mem(8);
    let (psns, ports) = (1_u32 << PSN_BITS, 1_u16 << PORT_BITS);
    let port = 0xc000 + dice.below(ports.into()) as u16;
    let mut right = 0;
    match received {
        Received::Request => {
            write(&mut hand, &mem, port, 0, 1);
            right = 1;
        }
        Received::Response => {
            let remote = RemoteAddr { addr: 0, rkey: 7 };
            hand.post(0, SendOp::Write(remote), &[mem.sge(0, 8)]);
            hand.out();
            let first = hand.setup.psn[0];
            answer(&mut hand, port, first, Syndrome::default());
        }
        Received::Nothing => {}
    }
    let start = dice.below(psns as usize) as u32;
    let mut guesses: Vec<(u32, u16)> = (0..psns)
        .flat_map(|psn| (0..ports).map(move |port| (psn, port)))
        .collect();
    for last in (1..guesses.len()).rev() {
        guesses.swap(last, dice.below(last + 1));
    }
    for (n, (psn, port)) in guesses.iter().enumerate() {
        let distance = right + ((psn + start) << (24 - PSN_BITS));
        write(&mut hand, &mem, 0xc000 + port, distance, 9);
        hand.out();
        if mem.read(0, 8) == [9; 8] {
            return Some(n as u32 + 1);
        }
    }
    None
}

/// The calculation in docs/design/security.md, with smaller numbers: before the guard, the PSN suffices;
/// then, the port must be right, too. It does not matter which half of the QP knows the port.
#[test]
fn the_number_of_guesses_is_as_calculated() {
    const ATTACKS: u64 = 1000;
    let (psns, both) = (
        f64::from(1 << PSN_BITS),
        f64::from(1 << (PSN_BITS + PORT_BITS)),
    );
    let at_once = f64::from(GUESSES) / psns;
    let expected = at_once * f64::from(GUESSES) / 2.0 + (1.0 - at_once) * both / 2.0;
    for received in [Received::Request, Received::Response] {
        let packets = |seed| attack(seed, received).expect("one of the guesses is right");
        let total: u64 = (0..ATTACKS).map(|seed| u64::from(packets(seed))).sum();
        let mean = total as f64 / ATTACKS as f64;
        // The standard deviation of the mean is less than a fiftieth of it.
        assert!(
            (mean / expected - 1.0).abs() < 0.1,
            "{received:?}: {mean}, not {expected}"
        );
    }
}

/// The calculation for a QP that has received nothing: the tolerated guesses and one from each port
/// may hit the PSN, and no further ones.
#[test]
fn the_chance_before_the_first_packet_is_as_calculated() {
    const ATTACKS: u64 = 1000;
    let misses = 1.0 - 1.0 / f64::from(1 << PSN_BITS);
    let expected = 1.0 - misses.powi((GUESSES + (1 << PORT_BITS)) as i32);
    let attacks = (0..ATTACKS).map(|seed| attack(seed, Received::Nothing));
    let share = attacks.flatten().count() as f64 / ATTACKS as f64;
    // The standard deviation of the share is less than 0.016.
    assert!((share - expected).abs() < 0.05, "{share}, not {expected}");
}
