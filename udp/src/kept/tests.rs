use std::num::NonZeroU64;

use roce_wire::Qpn;

use super::*;

fn reader(last: u8) -> Reader {
    (IpAddr::from([10, 0, 0, last]), QpnRange::of(Qpn::QP0))
}

fn flow(number: u32) -> Flow {
    let qpn = Qpn::new(number).expect("24 bits");
    Flow::new(qpn, qpn)
}

fn at(position: u64) -> Position {
    Position(NonZeroU64::new(position).expect("not 0"))
}

fn kept(blocks: usize) -> KeptBlocks {
    KeptBlocks::new(blocks * BLOCK_BYTES)
}

/// Takes a block for `reader`, and fills it with `byte`.
fn take(kept: &mut KeptBlocks, reader: Reader, byte: u8) -> Block {
    let block = kept.prepare(reader).expect("a free block");
    kept.bytes_mut(block).fill(byte);
    kept.take_prepared();
    block
}

fn holds(kept: &KeptBlocks, block: Block, byte: u8) -> bool {
    kept.bytes(block).iter().all(|&found| found == byte)
}

#[test]
fn a_block_is_reused_when_all_its_packets_are_acknowledged() {
    let mut kept = kept(1);
    let block = take(&mut kept, reader(1), 7);
    for position in 1..=3 {
        kept.add_packet(flow(1), at(position), block);
    }
    kept.add_packet(flow(2), at(9), block);
    kept.note_sent(block, true);
    let reports = [
        (flow(1), Acknowledged::Before(at(3))),
        (flow(3), Acknowledged::All),
        (flow(2), Acknowledged::Before(at(9))),
        (flow(1), Acknowledged::Before(at(4))),
    ];
    for (flow, which) in reports {
        kept.acknowledged(flow, which);
        assert_eq!(kept.prepare(reader(1)), None, "after {flow:?} {which:?}");
        assert!(holds(&kept, block, 7));
    }
    kept.acknowledged(flow(2), Acknowledged::Before(at(10)));
    assert_eq!(kept.prepare(reader(1)), Some(block));
    assert!(kept.flows.is_empty() && kept.newest.is_none());
}

/// Tests how a block ends: it keeps its pages, with what was last written to them, or gets new
/// ones.
#[test]
fn a_block_keeps_its_pages_only_after_an_acknowledgement() {
    let poison = if cfg!(debug_assertions) { POISON } else { 7 };
    type Ending = fn(&mut KeptBlocks, Block);
    let endings: [(&str, Ending, u8); 4] = [
        (
            "acknowledged",
            |kept, _| kept.acknowledged(flow(1), Acknowledged::Before(at(6))),
            poison,
        ),
        (
            "retransmitted and acknowledged",
            |kept, _| {
                kept.note_retransmission(flow(1));
                kept.acknowledged(flow(1), Acknowledged::Before(at(6)));
            },
            0,
        ),
        (
            "the connection ended",
            |kept, _| kept.acknowledged(flow(1), Acknowledged::All),
            0,
        ),
        (
            "for another process next",
            |kept, block| {
                kept.acknowledged(flow(1), Acknowledged::Before(at(6)));
                assert_eq!(kept.prepare(reader(2)), Some(block));
            },
            0,
        ),
    ];
    for (name, ending, expected) in endings {
        let mut kept = kept(1);
        let block = take(&mut kept, reader(1), 7);
        kept.add_packet(flow(1), at(5), block);
        kept.note_sent(block, true);
        ending(&mut kept, block);
        assert_eq!(kept.in_use(), 0, "{name}");
        if expected == 0 && cfg!(debug_assertions) && name != "for another process next" {
            assert!(holds(&kept, block, POISON), "{name}");
            assert_eq!(kept.states[0].reader, None, "{name}: nobody has the pages");
        } else {
            assert!(holds(&kept, block, expected), "{name}");
        }
    }
}

#[test]
fn a_block_gets_new_pages_if_its_flow_ends_before_it_is_sent() {
    let mut kept = kept(1);
    let block = take(&mut kept, reader(1), 7);
    kept.add_packet(flow(1), at(5), block);
    kept.acknowledged(flow(1), Acknowledged::All);
    assert_eq!(kept.prepare(reader(1)), None, "it waits to be sent");
    assert!(holds(&kept, block, 7));
    kept.note_sent(block, true);
    assert_eq!(kept.in_use(), 0);
    assert_eq!(kept.states[0].reader, None);
}

#[test]
fn a_copied_block_is_free_at_once_and_late_reports_change_nothing() {
    let mut kept = kept(1);
    let block = take(&mut kept, reader(1), 7);
    kept.add_packet(flow(1), at(5), block);
    kept.note_sent(block, false);
    let again = take(&mut kept, reader(1), 8);
    assert_eq!(again, block);
    kept.add_packet(flow(2), at(1), block);
    kept.note_sent(block, true);
    kept.note_retransmission(flow(1));
    kept.acknowledged(flow(1), Acknowledged::Before(at(6)));
    assert_eq!(kept.in_use(), 1);
    assert!(holds(&kept, block, 8));
    kept.acknowledged(flow(2), Acknowledged::Before(at(2)));
    assert_eq!(kept.in_use(), 0);
    assert_eq!(
        kept.states[0].reader,
        Some(reader(1)),
        "the pages are as good"
    );
}

#[test]
fn blocks_of_the_same_reader_are_preferred_and_no_block_means_none() {
    let mut kept = kept(2);
    let first = take(&mut kept, reader(1), 1);
    let second = take(&mut kept, reader(2), 2);
    assert_eq!(kept.prepare(reader(1)), None);
    for block in [first, second] {
        kept.note_sent(block, false);
    }
    assert_eq!(kept.prepare(reader(1)), Some(first));
    assert_eq!(kept.prepare(reader(2)), Some(second));
    assert_eq!(
        kept.prepare(reader(1)),
        Some(first),
        "an offer takes nothing"
    );
    let mut none = self::kept(0);
    assert_eq!(none.prepare(reader(1)), None);
    none.acknowledged(flow(1), Acknowledged::All);
}
