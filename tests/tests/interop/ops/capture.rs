//! The packets of both sides on the wire, checked by other programs.

use std::collections::BTreeSet;

use roce_tests::decode::assert_decode_agrees;
use roce_tests::ends::{End, Options, connect};
use roce_tests::lab::Lab;
use roce_tests::peer::{GidIndex, Operation};
use roce_tests::wire::{Frames, Sender, assert_tshark_content};

use super::{HERE, THERE, assert_success, both_ways, run};

// trap: pad-in-icrc
#[test]
fn every_packet_of_either_side_is_well_formed() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for gid in [GidIndex::Ip4, GidIndex::LinkLocal6] {
        let options = Options {
            gid,
            ..Options::default()
        };
        let (mut ours, mut theirs) = connect(&lab, &options);
        for end in [&mut ours as &mut dyn End, &mut theirs] {
            end.write_memory(HERE, &[0xff; 5000]);
        }
        let capture = lab.capture_start().unwrap();
        both_ways(&mut ours, &mut theirs, |from, to| {
            for size in [0, 1, 2, 3, 4, 1023, 2049, 5000] {
                every_operation(from, to, size);
            }
        });
        let files = capture.stop().unwrap();
        for file in [&files.outside, &files.guest] {
            let frames = Frames::read(file);
            frames.assert_icrcs();
            assert_opcodes(&frames);
            assert_tshark_content(&lab, file);
            assert_eq!(assert_decode_agrees(file), frames.count());
        }
    }
}

fn every_operation(from: &mut dyn End, to: &mut dyn End, size: u32) {
    let (addr, rkey) = to.remote(THERE + 3);
    let imm = 0x0102_0304;
    let operations = [
        Operation::Send,
        Operation::SendImm { imm },
        Operation::Write { addr, rkey },
        Operation::WriteImm { addr, rkey, imm },
        Operation::Read { addr, rkey },
    ];
    for operation in operations {
        let receives = !matches!(operation, Operation::Write { .. } | Operation::Read { .. });
        if receives {
            to.receive(1, &[(THERE, 5000)]);
        }
        let done = run(from, operation, HERE, size);
        assert!(done.is_success(), "{operation:?} of {size}: {done:?}");
        if receives {
            assert!(to.completion().is_success());
        }
    }
    let (addr, rkey) = to.remote(0);
    let add = 1;
    let fetch_add = Operation::FetchAdd { addr, rkey, add };
    assert_success(&run(from, fetch_add, HERE + 5000, 8), "FETCH_ADD");
    let compare_swap = Operation::CompareSwap {
        addr,
        rkey,
        compare: 0,
        swap: 1,
    };
    assert_success(&run(from, compare_swap, HERE + 5000, 8), "COMP_SWAP");
}

/// Both sides have sent each RC opcode except those with invalidate (IBTA 1.7,
/// 9.2.1, table 38).
fn assert_opcodes(frames: &Frames) {
    for side in [Sender::Ours, Sender::Theirs] {
        let of_side = frames.packets().filter(|(sender, _)| *sender == side);
        let sent: BTreeSet<u8> = of_side
            .map(|(_, packet)| packet.bth.opcode.byte())
            .collect();
        let expected: BTreeSet<u8> = (0x00..=0x14).collect();
        assert_eq!(sent, expected, "of {side:?}");
    }
}
