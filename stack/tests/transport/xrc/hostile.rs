//! A target against a hostile peer.

use super::Target;
use crate::sim::to_state;
use roce_stack::QpState;
use roce_wire::{
    AtomicEth, Bth, ExtHeaders, Headers, Ieth, ImmDt, Opcode, Operation, Psn, Qpn, Reth, Suffix,
    Syndrome, Transport, XrcEth,
};
use testkit::Dice;

/// Requests of any kind, for any SRQ, with any key and length: nothing panics, memory of an SRQ
/// that the peer never names correctly is unchanged, and each receive completes at most once.
#[test]
fn any_request_is_harmless() {
    for seed in 1..=8 {
        let mut dice = Dice::new(seed);
        let mut target = Target::new();
        let nic = &mut target.hand.node.nic;
        let elsewhere = nic.create_xrcd();
        let hidden = super::Srq::new(nic, elsewhere);
        let secret = hidden.mem(nic, 4096);
        secret.write(0, &[0xa5; 4096]);
        let open = target.srqs[0].mem(nic, 4096);
        let mut posted = 0;
        let mut done: Vec<u64> = Vec::new();
        for _ in 0..1500 {
            if target.hand.state() == QpState::Err {
                let hand = &mut target.hand;
                hand.out();
                let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
                nic.modify_qp(hand.now, qpn, &to_state(QpState::Reset))
                    .expect("legal");
                target.connect();
            }
            done.extend(target.srqs[0].received().iter().map(|c| c.wr_id));
            let status = target.hand.node.nic.query_srq(target.srqs[0].number);
            if status.is_some_and(|status| status.posted < 8) {
                let sges = [open.sge(0, 2048)];
                target.srqs[0].post(&mut target.hand.node.nic, posted, &sges);
                posted += 1;
            }
            let keys = [open.key, secret.key, dice.wild32()];
            let srqs = [
                target.srqs[0].number.get(),
                target.srqs[1].number.get(),
                hidden.number.get(),
                dice.wild32() & 0xff_ffff,
            ];
            let opcodes: Vec<Opcode> = Opcode::all()
                .filter(|o| o.transport() == Transport::Xrc && o.is_request())
                .collect();
            let opcode = dice.pick(&opcodes);
            let (anywhere, any_len) = (dice.wild64(), dice.wild32());
            let va = dice.pick(&[open.addr(), secret.addr(), anywhere]);
            let rkey = dice.pick(&keys);
            let len = dice.pick(&[0, 8, 1024, 1032, 3000, any_len]);
            let has = |headers| opcode.info().headers.contains(headers);
            let ext = ExtHeaders {
                xrceth: Some(XrcEth {
                    srqn: Qpn::from_bits(dice.pick(&srqs)),
                }),
                reth: has(Headers::RETH).then_some(Reth {
                    va,
                    rkey,
                    dma_len: len,
                }),
                atomic: has(Headers::ATOMIC).then_some(AtomicEth {
                    va,
                    rkey,
                    swap_or_add: 1,
                    compare: 0,
                }),
                imm: (opcode.suffix() == Suffix::Immediate).then_some(ImmDt(1)),
                ieth: (opcode.suffix() == Suffix::Invalidate).then_some(Ieth(rkey)),
                ..ExtHeaders::NONE
            };
            if matches!(
                opcode.operation(),
                Operation::Flush | Operation::AtomicWrite
            ) {
                continue;
            }
            let payload = match opcode.operation() {
                Operation::Send | Operation::Write => dice.pick(&[0, 1, 8, 1024]),
                _ => 0,
            };
            let at = target
                .hand
                .psn
                .wrapping_add(dice.pick(&[0, 0, 0, 0, 1, u32::MAX]));
            let mut bth = Bth::new(opcode, target.hand.node.qpn, Psn::new(at));
            bth.ack_req = true;
            target.hand.deliver(bth, ext, &vec![0x11; payload]);
            // Executed requests advance the PSN; the test learns it from the answers.
            for out in target.hand.out() {
                let ahead = out.psn().wrapping_sub(target.hand.psn) & 0xff_ffff;
                let refused = !matches!(out.syndrome(), None | Some(Syndrome::Ack(_)));
                if !refused && ahead < 0x80_0000 {
                    target.hand.psn = out.bth.psn.next().get();
                }
            }
        }
        assert_eq!(secret.read(0, 4096), [0xa5; 4096], "seed {seed}");
        assert!(hidden.received().is_empty(), "seed {seed}");
        assert!(!done.is_empty(), "seed {seed}: nothing got through");
        let count = done.len();
        done.sort_unstable();
        done.dedup();
        assert_eq!(done.len(), count, "seed {seed}: twice");
    }
}
