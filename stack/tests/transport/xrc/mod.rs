//! Extended reliable connections (IBTA 1.7, annex A14).

mod errors;
mod hostile;
mod memory_placement;
mod traffic;
mod wire;

use crate::sim::{A, B, Hand, Mem, Pair, Setup};
use roce_stack::{
    Access, Buffer, CompletionQueue, CqId, Nic, PdId, QpAttributes, QpInit, QpKind, QpState,
    QueueLimits, RecvRequest, SendOp, SendRequest, Sge, SrqInit, Srqn, XrcdId,
};
use roce_wire::{Bth, ExtHeaders, Opcode, Psn, XrcEth};
use std::sync::Arc;

/// An SRQ of XRC, with its CQ and its domain.
pub(crate) struct Srq {
    pub(crate) number: Srqn,
    pd: PdId,
    cq: Arc<CompletionQueue>,
}

impl Srq {
    /// An SRQ of 16 receives, with a CQ and a protection domain of its own.
    fn new(nic: &mut Nic, domain: XrcdId) -> Self {
        let pd = nic.alloc_pd();
        let cq = Arc::new(CompletionQueue::new(CqId(77), 64));
        let size = QueueLimits {
            depth: 16,
            max_sge: 4,
        };
        let number = nic.create_xrc_srq(&SrqInit { pd, size }, domain, cq.clone());
        Self {
            number: number.expect("an SRQ"),
            pd,
            cq,
        }
    }

    /// Memory of its protection domain, with all rights.
    fn mem(&self, nic: &mut Nic, len: usize) -> Mem {
        let buffer = Arc::new(Buffer::new(len).expect("a buffer"));
        let key = nic.register_buffer(self.pd, buffer.clone(), Access::ANY_MEMORY);
        Mem {
            buffer,
            key: key.expect("registered"),
        }
    }

    fn post(&self, nic: &mut Nic, wr_id: u64, sges: &[Sge]) {
        let wr = RecvRequest { wr_id, sges };
        nic.post_srq_recv(self.number, &wr).expect("posted");
    }

    /// The completions since the last call.
    fn received(&self) -> Vec<roce_stack::Completion> {
        core::iter::from_fn(|| self.cq.poll().expect("no overrun")).collect()
    }
}

/// The header that names an SRQ.
fn names(srq: Srqn) -> ExtHeaders {
    ExtHeaders {
        xrceth: Some(XrcEth {
            srqn: roce_wire::Qpn::from_bits(srq.get()),
        }),
        ..ExtHeaders::NONE
    }
}

/// The attributes of RC that an initiator has.
fn of_initiator(attributes: QpAttributes) -> QpAttributes {
    QpAttributes {
        max_dest_rd_atomic: None,
        min_rnr_timer: None,
        ..attributes
    }
}

/// The attributes of RC that a target has.
fn of_target(attributes: QpAttributes) -> QpAttributes {
    QpAttributes {
        retry_cnt: None,
        rnr_retry: None,
        max_rd_atomic: None,
        ..attributes
    }
}

fn initiator(pair_pd: PdId, cq: &Arc<CompletionQueue>, size: QueueLimits) -> QpInit {
    QpInit {
        kind: QpKind::XrcInitiator,
        pd: pair_pd,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        send: size,
        recv: size,
        max_inline: 64,
        signal_all: true,
    }
}

/// A is an initiator, B a target with two SRQs.
pub(crate) struct Ends {
    pub(crate) pair: Pair,
    domain: XrcdId,
    pub(crate) srqs: [Srq; 2],
}

impl Ends {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut pair = Pair::unconnected(setup);
        let a = &mut pair.nodes[A];
        a.qpn = a
            .nic
            .create_qp(initiator(a.pd, &a.send_cq, setup.queue))
            .expect("a QP");
        let b = &mut pair.nodes[B];
        let domain = b.nic.create_xrcd();
        b.qpn = b.nic.create_xrc_target(domain).expect("a target");
        let srqs = [(); 2].map(|()| Srq::new(&mut b.nic, domain));
        let dest = [pair.nodes[B].qpn, pair.nodes[A].qpn];
        for side in [A, B] {
            let path = pair.path(side);
            let rtr = setup.rtr(path, dest[side], setup.psn[1 - side]);
            let rts = setup.rts(setup.psn[side]);
            pair.modify(side, &setup.init());
            for step in [rtr, rts] {
                let step = match side {
                    A => of_initiator(step),
                    _ => of_target(step),
                };
                pair.modify(side, &step);
            }
        }
        Self { pair, domain, srqs }
    }

    pub(crate) fn post(&mut self, wr_id: u64, op: SendOp, sges: &[Sge], srq: Srqn) {
        let wr = SendRequest::new(wr_id, op, sges);
        let node = &mut self.pair.nodes[A];
        let posted = node.nic.post_send(self.pair.now, node.qpn, &wr.to(srq));
        posted.expect("posted");
    }

    pub(crate) fn target_mem(&mut self, srq: usize, len: usize) -> Mem {
        self.srqs[srq].mem(&mut self.pair.nodes[B].nic, len)
    }

    pub(crate) fn post_recv(&mut self, srq: usize, wr_id: u64, sges: &[Sge]) {
        self.srqs[srq].post(&mut self.pair.nodes[B].nic, wr_id, sges);
    }
}

/// A target with two SRQs whose initiator the test plays.
struct Target {
    hand: Hand,
    domain: XrcdId,
    srqs: [Srq; 2],
}

impl Target {
    fn new() -> Self {
        let mut hand = Hand::in_reset(Setup::default());
        let domain = hand.node.nic.create_xrcd();
        hand.node.qpn = hand.node.nic.create_xrc_target(domain).expect("a target");
        let srqs = [(); 2].map(|()| Srq::new(&mut hand.node.nic, domain));
        let mut target = Self { hand, domain, srqs };
        target.connect();
        target
    }

    fn connect(&mut self) {
        let hand = &mut self.hand;
        let setup = hand.setup;
        let path = setup.path();
        for step in [
            setup.init(),
            setup.rtr(path, crate::sim::PEER_QPN, setup.psn[1]),
            of_target(setup.rts(setup.psn[0])),
        ] {
            let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
            nic.modify_qp(hand.now, qpn, &step).expect("legal");
        }
        hand.psn = setup.psn[1];
        assert_eq!(hand.state(), QpState::Rts);
    }

    /// A request with the next PSN, for an SRQ.
    fn request(&mut self, srq: Srqn, opcode: Opcode, ext: ExtHeaders, payload: &[u8]) {
        let ext = ExtHeaders {
            xrceth: names(srq).xrceth,
            ..ext
        };
        let hand = &mut self.hand;
        let mut bth = Bth::new(opcode, hand.node.qpn, Psn::new(hand.psn));
        bth.ack_req = true;
        hand.psn = Psn::new(hand.psn).next().get();
        hand.deliver(bth, ext, payload);
    }
}
