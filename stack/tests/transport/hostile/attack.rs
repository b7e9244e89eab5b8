//! One run: the victim works, the attacker sends, and the invariants are checked.

use super::packets::{self, Knowledge};
use crate::sim::pair::to_state;
use crate::sim::{Hand, Ip, Setup};
use roce_stack::{
    Access, Buffer, Completion, QpState, QueueLimits, RecvRequest, SendFlags, SendOp, SendRequest,
    Sge,
};
use roce_wire::{Operation, PathMtu};
use std::collections::VecDeque;
use testkit::Dice;

/// The bytes around each region, which must never change or be read.
const GUARD: u8 = 0xee;
/// The bytes of a region without remote rights.
const SECRET: u8 = 0xd7;
/// The bytes of the port's slots before they are written.
const UNWRITTEN: u8 = 0xa5;
/// Bytes of a region, with as many guard bytes on either side.
const LEN: usize = 2048;

/// A region in the middle of a buffer.
struct Guarded {
    buffer: Buffer,
    key: u32,
}

impl Guarded {
    fn new(hand: &mut Hand, fill: u8, access: Access) -> Self {
        let buffer = Buffer::new(3 * LEN).expect("a buffer");
        buffer.write(0, &[GUARD; 3 * LEN]).expect("in bounds");
        buffer.write(LEN, &[fill; LEN]).expect("in bounds");
        let mut guarded = Self { buffer, key: 0 };
        guarded.register(hand, access);
        guarded
    }

    fn addr(&self) -> u64 {
        self.buffer.addr() + LEN as u64
    }

    fn register(&mut self, hand: &mut Hand, access: Access) {
        let base = self.addr() as *mut u8;
        let (pd, iova) = (hand.node.pd, self.addr());
        // SAFETY: the bytes lie in the buffer's allocation, which is dropped after
        // the NIC (see `Victim`), and are accessed through raw copies only.
        let key = unsafe { hand.node.nic.register(pd, base, LEN as u64, iova, access) };
        self.key = key.expect("registered");
    }

    fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.buffer.read(from, &mut out).expect("in bounds");
        out
    }

    fn assert_guards(&self) {
        assert!(self.bytes(0, LEN).iter().all(|b| *b == GUARD), "before");
        assert!(
            self.bytes(2 * LEN, LEN).iter().all(|b| *b == GUARD),
            "behind"
        );
    }
}

struct Victim {
    // The NIC is dropped first, then the memory that it accesses.
    hand: Hand,
    open: Guarded,
    words: Guarded,
    secret: Guarded,
    sends: VecDeque<u64>,
    receives: VecDeque<u64>,
    next_id: u64,
}

const OPEN: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_INVALIDATE);
const WORDS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_ATOMIC);

pub(super) fn attack(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut victim = Victim::new(seed, &mut dice);
    let setup = victim.hand.setup;
    let mut known = Knowledge {
        regions: vec![
            (victim.open.addr(), victim.open.key),
            (victim.words.addr(), victim.words.key),
            (victim.secret.addr(), victim.secret.key),
        ],
        len: LEN as u64,
        request_psn: setup.psn[1],
        sent_psn: setup.psn[0],
        mtu: setup.mtu.bytes(),
    };
    for _ in 0..300 {
        victim.work(&mut dice, &mut known);
        for _ in 0..1 + dice.below(3) {
            let packet = packets::draw(&mut dice, &victim.hand, &mut known);
            let hand = &mut victim.hand;
            hand.node.nic.receive(hand.now, &packet.meta, &packet.bytes);
        }
        victim.send(&mut dice, &mut known);
        victim.take_completions();
        if victim.hand.state() == QpState::Err && dice.one_in(2) {
            victim.reset(&mut known);
        }
    }
    victim.finish();
}

impl Victim {
    fn new(seed: u64, dice: &mut Dice) -> Self {
        let setup = Setup {
            seed,
            ip: dice.pick(&Ip::ROCE_V2),
            mtu: dice.pick(&[PathMtu::Mtu256, PathMtu::Mtu512]),
            psn: [dice.wild32() & 0xff_ffff, dice.wild32() & 0xff_ffff],
            queue: QueueLimits {
                depth: 8,
                max_sge: 3,
            },
            cq_entries: 64,
            window_bytes: dice.pick(&[0, 2048, 65536]),
            rd_atomic: dice.pick(&[1, 4]),
            dest_rd_atomic: dice.pick(&[0, 1, 4]),
            retry_cnt: dice.pick(&[0, 7]),
            rnr_retry: dice.pick(&[0, 7]),
            ..Setup::default()
        };
        let mut hand = Hand::in_reset(setup);
        let open = Guarded::new(&mut hand, 0, OPEN);
        let words = Guarded::new(&mut hand, 0, WORDS);
        let secret = Guarded::new(&mut hand, SECRET, Access::LOCAL_WRITE);
        let mut victim = Self {
            hand,
            open,
            words,
            secret,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            next_id: 0,
        };
        match dice.below(12) {
            0 => {}
            1 => victim.hand.advance_to(QpState::Init),
            2 | 3 => victim.hand.advance_to(QpState::Rtr),
            4 => {
                victim.hand.advance_to(QpState::Rts);
                victim.modify(QpState::Err);
            }
            5 => {
                victim.hand.advance_to(QpState::Rts);
                victim.modify(QpState::Sqd);
            }
            _ => victim.hand.advance_to(QpState::Rts),
        }
        victim
    }

    fn modify(&mut self, state: QpState) {
        let (nic, qpn) = (&mut self.hand.node.nic, self.hand.node.qpn);
        nic.modify_qp(self.hand.now, qpn, &to_state(state))
            .expect("legal from every state that this is called in");
    }

    /// Posts, waits, changes state and memory, as an application does.
    fn work(&mut self, dice: &mut Dice, known: &mut Knowledge) {
        if dice.one_in(2) {
            self.post_recv(dice);
        }
        if dice.one_in(2) {
            self.post_send(dice);
        }
        if dice.one_in(10)
            && let Some(at) = self.hand.node.nic.next_timeout()
        {
            self.hand.now = self.hand.now.max(at);
            self.hand.node.nic.handle_timeouts(self.hand.now);
        }
        if dice.one_in(60) {
            match self.hand.state() {
                QpState::Rts => self.modify(QpState::Sqd),
                QpState::Sqd => self.modify(QpState::Rts),
                _ => {}
            }
        }
        if dice.one_in(60) {
            self.hand.node.nic.deregister(self.open.key);
            self.open.register(&mut self.hand, OPEN);
            known.regions[0].1 = self.open.key;
        }
    }

    /// Local memory for one request: usually good, within the open region.
    fn sges(&self, dice: &mut Dice, bytes: usize) -> Vec<Sge> {
        let offset = dice.below(LEN - bytes + 1) as u64;
        let lkey = if dice.one_in(100) {
            dice.wild32()
        } else {
            self.open.key
        };
        vec![Sge {
            addr: self.open.addr() + offset,
            length: bytes as u32,
            lkey,
        }]
    }

    fn post_recv(&mut self, dice: &mut Dice) {
        let len = dice.below(LEN + 1);
        let sges = self.sges(dice, len);
        let wr = RecvRequest {
            wr_id: self.next_id,
            sges: &sges,
        };
        let node = &mut self.hand.node;
        if node.nic.post_recv(self.hand.now, node.qpn, &wr).is_ok() {
            self.receives.push_back(self.next_id);
            self.next_id += 1;
        }
    }

    fn post_send(&mut self, dice: &mut Dice) {
        let remote = roce_stack::RemoteAddr { addr: 8, rkey: 1 };
        let op = dice.pick(&[
            SendOp::Send,
            SendOp::SendImm(1),
            SendOp::Write(remote),
            SendOp::WriteImm(remote, 1),
            SendOp::Read(remote),
            SendOp::FetchAdd { remote, add: 1 },
        ]);
        let atomic = matches!(op, SendOp::FetchAdd { .. });
        let len = if atomic { 8 } else { dice.below(LEN + 1) };
        let sges = self.sges(dice, len);
        let wr = SendRequest::new(self.next_id, op, &sges).with_flags(if dice.one_in(5) {
            SendFlags::FENCE
        } else {
            SendFlags::empty()
        });
        let node = &mut self.hand.node;
        if node.nic.post_send(self.hand.now, node.qpn, &wr).is_ok() {
            self.sends.push_back(self.next_id);
            self.next_id += 1;
        }
    }

    /// Lets the NIC send, and checks the bytes that it reveals.
    fn send(&mut self, dice: &mut Dice, known: &mut Knowledge) {
        self.hand.node.port.max_queued = dice.pick(&[1, 3, usize::MAX]);
        for out in self.hand.out() {
            if out.opcode().is_request() {
                known.sent_psn = out.psn();
            }
            for forbidden in [GUARD, SECRET, UNWRITTEN] {
                let leaks = |run: &[u8]| run.iter().all(|byte| *byte == forbidden);
                assert!(!out.payload.windows(6).any(leaks), "leaked: {out:?}");
            }
            if out.opcode().is_response() {
                self.learn(out.psn(), out.opcode().operation(), known);
            }
        }
    }

    /// From an answer, the attacker learns which PSN is due.
    fn learn(&self, psn: u32, operation: Operation, known: &mut Knowledge) {
        known.request_psn = match operation {
            Operation::Acknowledge => roce_wire::Psn::new(psn).next().get(),
            _ => known.request_psn,
        };
    }

    fn take_completions(&mut self) {
        let node = &mut self.hand.node;
        let check = |done: Vec<Completion>, posted: &mut VecDeque<u64>| {
            for completion in done {
                assert_eq!(Some(completion.wr_id), posted.pop_front(), "out of order");
            }
        };
        check(node.sent(), &mut self.sends);
        check(node.received(), &mut self.receives);
        node.take_events();
    }

    fn reset(&mut self, known: &mut Knowledge) {
        self.take_completions();
        assert!(
            self.sends.is_empty() && self.receives.is_empty(),
            "all flushed"
        );
        self.modify(QpState::Reset);
        self.hand.advance_to(QpState::Rts);
        known.request_psn = self.hand.setup.psn[1];
        known.sent_psn = self.hand.setup.psn[0];
    }

    /// Everything posted completes in the end, and memory has the right contents.
    fn finish(mut self) {
        self.take_completions();
        let state = self.hand.state();
        if matches!(state, QpState::Rts | QpState::Sqd) {
            self.modify(QpState::Err);
            self.take_completions();
            assert!(
                self.sends.is_empty() && self.receives.is_empty(),
                "all flushed"
            );
        }
        let (sends, receives) = self.hand.node.nic.queued(self.hand.node.qpn).expect("a QP");
        assert_eq!((sends, receives), (self.sends.len(), self.receives.len()));
        for region in [&self.open, &self.words, &self.secret] {
            region.assert_guards();
        }
        assert!(self.secret.bytes(LEN, LEN).iter().all(|b| *b == SECRET));
    }
}
