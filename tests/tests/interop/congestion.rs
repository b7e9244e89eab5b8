//! A congested switch between this stack and the kernel's Soft-RoCE, which has no congestion
//! control.

use roce_tests::decode::assert_decode_agrees;
use roce_tests::ends::{End, Options, connect, pattern};
use roce_tests::lab::{Direction, Lab};
use roce_tests::peer::{GidIndex, Operation};
use roce_tests::wire::{Frames, Sender, assert_tshark_content};
use roce_wire::Opcode;

/// Marked packets of Soft-RoCE make this stack send CNPs that other programs can decode. Soft-RoCE
/// ignores them and continues.
#[test]
fn marked_packets_of_theirs_are_answered_with_cnps() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for gid in [GidIndex::Ip4, GidIndex::LinkLocal6] {
        answers_marks(&lab, gid);
    }
    lab.check_kernel().unwrap();
}

fn answers_marks(lab: &Lab, gid: GidIndex) {
    let options = Options {
        gid,
        ..Options::default()
    };
    let (mut ours, mut theirs) = connect(lab, &options);
    let capture = lab.capture_start().unwrap();
    lab.set_marks(Direction::ToHost, true).unwrap();
    let moved = moves(&mut ours, &mut theirs);
    lab.set_marks(Direction::ToHost, false).unwrap();
    moved.unwrap();
    let files = capture.stop().unwrap();
    let frames = Frames::read(&files.outside);
    frames.assert_icrcs();
    assert_tshark_content(lab, &files.outside);
    assert_eq!(assert_decode_agrees(&files.outside), frames.count());
    let cnps: Vec<_> = frames
        .packets()
        .filter(|(_, packet)| packet.bth.opcode == Opcode::CNP)
        .map(|(sender, packet)| (sender, packet.bth.dest_qpn))
        .collect();
    assert!(!cnps.is_empty());
    // Soft-RoCE sends no CNPs.
    let expected = (Sender::Ours, theirs.endpoint().qpn);
    assert!(cnps.iter().all(|cnp| *cnp == expected), "{cnps:?}");
    // It continues without marks.
    moves(&mut ours, &mut theirs).unwrap();
}

/// WRITEs of several packets by theirs, and READs from theirs by ours: both send packets with data
/// to us.
fn moves(ours: &mut dyn End, theirs: &mut dyn End) -> Result<(), String> {
    const SIZE: u32 = 64 << 10;
    for round in 0..2 {
        let (addr, rkey) = ours.remote(0);
        let bytes = pattern(SIZE, round);
        theirs.write_memory(0, &bytes);
        theirs.post(1, Operation::Write { addr, rkey }, &[(0, SIZE)]);
        let done = theirs.completion();
        if !done.is_success() || ours.read_memory(0, SIZE) != bytes {
            return Err(format!("WRITE {round} of theirs: {done:?}"));
        }
        let (addr, rkey) = theirs.remote(0);
        ours.write_memory(0, &vec![0; SIZE as usize]);
        ours.post(2, Operation::Read { addr, rkey }, &[(0, SIZE)]);
        let done = ours.completion();
        if !done.is_success() || ours.read_memory(0, SIZE) != bytes {
            return Err(format!("READ {round} of ours: {done:?}"));
        }
    }
    Ok(())
}
