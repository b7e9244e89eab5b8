//! FLUSH and ATOMIC WRITE through XRC (IBTA 1.7, annexes A14 and A19).

use super::Ends;
use crate::sim::{A, B, Fate, Setup, pattern};
use roce_stack::{Access, Flush, SendOp, WcStatus};
use roce_wire::{FlushPlacement, FlushSelectivity, Opcode};

fn setup() -> Setup {
    Setup {
        access: Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL,
        ..Setup::default()
    }
}

/// They work as over RC, in memory of the SRQ's domain, with the loss of any packet.
#[test]
fn writes_are_flushed_and_words_written() {
    for lost in [&[0], &[1], &[2], &[3], &[4_usize]] {
        let mut ends = Ends::new(setup());
        let from = ends.pair.mem(A, 3000);
        let to = ends.target_mem(0, 3000);
        from.write(0, &pattern(1, 3000));
        let number = ends.srqs[0].number;
        let flush = Flush {
            remote: to.remote(0),
            len: 3000,
            placement: FlushPlacement::GLOBAL_VISIBILITY,
            selectivity: FlushSelectivity::Range,
        };
        ends.pair.links[A].hit(lost, Fate::Drop, |_| true);
        ends.post(1, SendOp::Write(to.remote(0)), &[from.sge(0, 3000)], number);
        ends.post(2, SendOp::Flush(flush), &[], number);
        ends.post(
            3,
            SendOp::AtomicWrite(to.remote(8)),
            &[from.sge(0, 8)],
            number,
        );
        ends.pair.run();
        ends.pair.assert_sent(A, &[1, 2, 3]);
        assert_eq!(to.word(8), from.word(0));
        assert_eq!(to.read(16, 2984), pattern(1, 3000)[16..]);
        for opcode in [Opcode::XRC_FLUSH, Opcode::XRC_ATOMIC_WRITE] {
            assert!(ends.pair.links[A].count(|sent| sent.opcode() == opcode) >= 1);
        }
    }
}

/// They have no access to memory of another SRQ's domain either.
#[test]
fn they_stay_within_the_domain() {
    for op in 0..2 {
        let mut ends = Ends::new(setup());
        let from = ends.pair.mem(A, 8);
        let to = ends.target_mem(0, 64);
        from.set_word(0, 7);
        let flush = Flush {
            remote: to.remote(0),
            len: 64,
            placement: FlushPlacement::GLOBAL_VISIBILITY,
            selectivity: FlushSelectivity::Range,
        };
        let other = ends.srqs[1].number;
        match op {
            0 => ends.post(1, SendOp::Flush(flush), &[], other),
            _ => ends.post(
                1,
                SendOp::AtomicWrite(to.remote(0)),
                &[from.sge(0, 8)],
                other,
            ),
        }
        ends.pair.run();
        ends.pair
            .assert_sent_as(A, &[(1, WcStatus::RemoteAccessError)]);
        assert_eq!(to.word(0), 0);
        assert!(ends.pair.nodes[B].received().is_empty());
    }
}
