//! Shared receive queues (IBTA 1.7, 10.2.9).

mod datagrams;
mod failure;
mod limit;
mod model;
mod table;
mod take;

use crate::sim::{Hand, Setup};
use roce_stack::{
    QpInit, QpKind, QpState, QueueLimits, RecvRequest, Sge, SrqInit, SrqStatus, Srqn,
};
use roce_wire::{ExtHeaders, Opcode, Qpn};

/// One NIC whose QPs share one SRQ; the test plays the peers of all of them.
struct Many {
    hand: Hand,
    srq: Srqn,
    /// Each QP, and the next PSN that its peer sends.
    qps: Vec<(Qpn, u32)>,
}

fn size(depth: usize) -> QueueLimits {
    QueueLimits { depth, max_sge: 4 }
}

impl Many {
    /// A NIC with `qps` QPs in RTS on an SRQ of 16 receives.
    fn new(qps: usize) -> Self {
        Self::of(QpKind::Rc, qps)
    }

    fn of(kind: QpKind, qps: usize) -> Self {
        let mut hand = Hand::in_reset(Setup {
            kind,
            ..Setup::default()
        });
        let init = SrqInit {
            pd: hand.node.pd,
            size: size(16),
        };
        let srq = hand.node.nic.create_srq(&init).expect("an SRQ");
        let mut many = Self {
            hand,
            srq,
            qps: Vec::new(),
        };
        for _ in 0..qps {
            many.add();
        }
        many
    }

    /// Adds a QP in RTS.
    fn add(&mut self) {
        let qpn = create(&mut self.hand, self.srq);
        self.hand.node.qpn = qpn;
        self.hand.advance_to(QpState::Rts);
        self.qps.push((qpn, self.hand.setup.psn[1]));
    }

    /// Makes this QP the subject of [`Hand`]'s calls.
    fn on(&mut self, index: usize) -> &mut Hand {
        self.hand.node.qpn = self.qps[index].0;
        &mut self.hand
    }

    /// Delivers a request with the QP's next PSN.
    fn request(&mut self, index: usize, opcode: Opcode, ext: ExtHeaders, payload: &[u8]) {
        let psn = self.qps[index].1;
        let hand = self.on(index);
        hand.psn = psn;
        hand.request(opcode, ext, payload);
        self.qps[index].1 = hand.psn;
    }

    fn send(&mut self, index: usize, opcode: Opcode, payload: &[u8]) {
        self.request(index, opcode, ExtHeaders::NONE, payload);
    }

    fn post(&mut self, wr_id: u64, sges: &[Sge]) {
        let wr = RecvRequest { wr_id, sges };
        let posted = self.hand.node.nic.post_srq_recv(self.srq, &wr);
        posted.expect("posted to the SRQ");
    }

    fn status(&self) -> SrqStatus {
        self.hand.node.nic.query_srq(self.srq).expect("the SRQ")
    }

    /// The wr_ids of receives that completed since the last call, with the QP's index and whether
    /// they succeeded.
    fn received(&self) -> Vec<(u64, usize, bool)> {
        let index = |qpn| self.qps.iter().position(|(q, _)| *q == qpn);
        let done = self.hand.node.received().into_iter();
        done.map(|c| {
            let ok = c.status == roce_stack::WcStatus::Success;
            (c.wr_id, index(c.qpn).expect("one of the QPs"), ok)
        })
        .collect()
    }
}

/// A QP in RESET that uses the SRQ.
fn create(hand: &mut Hand, srq: Srqn) -> Qpn {
    let init = init(hand);
    let qpn = hand.node.nic.create_qp_with_srq(init, srq);
    qpn.expect("a QP")
}

fn init(hand: &Hand) -> QpInit {
    hand.node.init(hand.setup.kind, hand.setup.queue)
}
