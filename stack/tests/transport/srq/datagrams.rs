//! QPs of UD on an SRQ.

use super::Many;
use crate::sim::QKEY;
use roce_stack::{DropReason, Event, QpKind, SrqAttributes};
use roce_wire::{Deth, ExtHeaders, Opcode, QKey, Qpn};

const GRH: usize = 40;

fn deth(qkey: QKey) -> ExtHeaders {
    ExtHeaders {
        deth: Some(Deth {
            qkey,
            src_qpn: Qpn::from_bits(9),
        }),
        ..ExtHeaders::NONE
    }
}

/// A datagram for any QP takes the oldest receive. A datagram that is refused, or for which there
/// is no room, consumes none.
// shows: 10.2.9-srq, 10.2.9-srq-order
#[test]
fn datagrams_take_the_receives_of_all() {
    let mut many = Many::of(QpKind::Ud, 3);
    let mem = many.hand.mem(4 * (GRH + 8));
    for wr_id in 0..4 {
        let sge = mem.sge(wr_id * (GRH + 8), GRH + 8);
        many.post(wr_id as u64, &[sge]);
    }
    let limit = SrqAttributes {
        limit: Some(1),
        ..SrqAttributes::default()
    };
    many.hand
        .node
        .nic
        .modify_srq(many.srq, &limit)
        .expect("set");
    for (nth, index) in [2, 0, 0, 1].into_iter().enumerate() {
        many.request(1, Opcode::UD_SEND_ONLY, deth(QKey(QKEY.0 ^ 1)), &[9; 8]);
        many.request(index, Opcode::UD_SEND_ONLY, deth(QKEY), &[nth as u8; 8]);
        assert_eq!(many.received(), [(nth as u64, index, true)]);
        assert_eq!(mem.read(nth * (GRH + 8) + GRH, 8), [nth as u8; 8]);
    }
    assert_eq!(many.hand.drops(DropReason::WrongQKey), 4);
    many.hand.node.take_events();
    assert_eq!(many.hand.node.events, [Event::SrqLimit(many.srq)]);

    many.request(0, Opcode::UD_SEND_ONLY, deth(QKEY), &[5; 8]);
    assert_eq!(many.hand.drops(DropReason::NoReceive), 1);
    assert!(many.received().is_empty() && many.hand.out().is_empty());
    many.post(7, &[mem.sge(0, GRH + 8)]);
    many.request(1, Opcode::UD_SEND_ONLY, deth(QKEY), &[6; 8]);
    assert_eq!(many.received(), [(7, 1, true)]);
}
