use super::*;
use roce_wire::Qpn;
use std::num::NonZeroU64;

fn flow() -> Flow {
    let qpn = |number| Qpn::new(number).expect("24 bits");
    Flow::new(qpn(17), qpn(18))
}

fn at(position: u64) -> Position {
    Position(NonZeroU64::new(position).expect("positive"))
}

fn first(position: u64) -> Sequenced {
    Sequenced {
        position: at(position),
        is_retransmission: false,
    }
}

fn again(position: u64) -> Sequenced {
    Sequenced {
        is_retransmission: true,
        ..first(position)
    }
}

#[test]
fn a_packet_that_arrives_before_its_acknowledgement_is_whole() {
    let mut memory = SentMemory::default();
    let sent = memory.keep(flow(), first(1), &[1, 2, 3]);
    let mut bytes = [1, 2, 3];
    memory.arrive(sent, &mut bytes);
    assert_eq!(bytes, [1, 2, 3]);
    memory.acknowledged(flow(), Acknowledged::Before(at(2)));
    assert!(memory.is_empty());
}

#[test]
fn a_copy_that_arrives_later_contains_poison_or_another_packet() {
    let mut memory = SentMemory::default();
    let original = memory.keep(flow(), first(1), &[1, 2, 3]);
    let copy = memory.keep(flow(), again(1), &[1, 2, 3]);
    memory.arrive(copy, &mut [1, 2, 3]);
    memory.acknowledged(flow(), Acknowledged::Before(at(2)));
    let mut bytes = [1, 2, 3];
    memory.arrive(original, &mut bytes);
    assert_eq!(bytes, [POISON; 3]);
    memory.keep(flow(), first(2), &[7, 8]);
    let mut both = [[1, 2, 3]; 2];
    memory.arrive(original, &mut both[0]);
    memory.arrive(copy, &mut both[1]);
    both.sort_unstable();
    assert_eq!(both, [[7, 8, POISON], [POISON; 3]]);
}

#[test]
fn a_copy_that_arrives_after_its_memory_was_given_away_is_whole() {
    let mut memory = SentMemory::given_away();
    let original = memory.keep(flow(), first(1), &[1, 2, 3]);
    memory.arrive(original, &mut [1, 2, 3]);
    memory.acknowledged(flow(), Acknowledged::Before(at(2)));
    memory.keep(flow(), first(2), &[7, 8]);
    let mut bytes = [1, 2, 3];
    memory.arrive(original, &mut bytes);
    assert_eq!(bytes, [1, 2, 3]);
}

#[test]
#[should_panic(expected = "no copy has arrived")]
fn memory_must_not_be_freed_before_the_packet_has_arrived() {
    let mut memory = SentMemory::default();
    memory.keep(flow(), first(1), &[1]);
    memory.acknowledged(flow(), Acknowledged::Before(at(2)));
}

#[test]
#[should_panic(expected = "was acknowledged")]
fn an_acknowledged_packet_must_not_be_sent_again() {
    let mut memory = SentMemory::default();
    let sent = memory.keep(flow(), first(1), &[1]);
    memory.arrive(sent, &mut [1]);
    memory.acknowledged(flow(), Acknowledged::Before(at(2)));
    memory.keep(flow(), again(1), &[1]);
}

#[test]
#[should_panic(expected = "was never sent")]
fn a_retransmission_must_have_an_original() {
    let mut memory = SentMemory::default();
    memory.keep(flow(), first(1), &[1]);
    memory.keep(flow(), again(2), &[1]);
}

#[test]
fn the_packets_of_a_process_that_ended_stay_whole() {
    let mut memory = SentMemory::default();
    let sent = memory.keep(flow(), first(9), &[1]);
    memory.forget();
    memory.keep(flow(), first(1), &[2]);
    let mut bytes = [1];
    memory.arrive(sent, &mut bytes);
    assert_eq!(bytes, [1]);
    assert_eq!(memory.positions(flow()), [at(1)]);
}
