//! Two NICs and a wire that loses, duplicates, delays and corrupts packets as the input selects.
//! A port may keep the memory of sent packets: what arrives after the acknowledgement has other
//! bytes.
//!
//! Every request that completes without error has moved the right bytes, and no other bytes were
//! written. Once the wire stops injecting faults, every request completes, with or without an
//! error.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use roce_fuzz::{DEPTH, Frame, Host, Mem, Peer};
use roce_stack::{
    Access, Completion, Duration, Instant, QpKind, QpState, RecvRequest, SendOp, SendRequest,
    WcOpcode, WcStatus,
};
use roce_wire::{Psn, Qpn};
use std::collections::VecDeque;

/// A work request of one end.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Work {
    Send { len: u16, imm: bool },
    Write { len: u16, imm: bool },
    Read { len: u16 },
    Add,
}

/// What happens to a packet.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Fate {
    Deliver,
    Drop,
    Twice,
    Late { micros: u8 },
    Damage { bit: u16 },
}

/// Each request has its own place in each buffer, as long as the longest.
const SLOT: usize = 2048;
const SLOTS: usize = DEPTH;
/// The most faults in a run, so that each run ends.
const MAX_FAULTS: usize = 200;

struct End {
    host: Host,
    qpn: Qpn,
    /// The source of our SENDs and WRITEs and of the peer's READs; never written.
    source: Mem,
    /// The destination of the peer's WRITEs.
    target: Mem,
    /// The destination of our READs and the results of our atomics.
    fetched: Mem,
    /// The receive buffers for the peer's SENDs.
    inbox: Mem,
    /// The eight bytes that the peer's atomics add to.
    counter: Mem,
    posted: Vec<Work>,
    done: Vec<Completion>,
    received: Vec<Completion>,
}

struct World<'a> {
    now: Instant,
    ends: [End; 2],
    wire: VecDeque<(Instant, usize, Frame)>,
    fates: Unstructured<'a>,
    faults: usize,
    kind: QpKind,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let Ok((uc, works)) = <(bool, [Vec<Work>; 2])>::arbitrary(&mut input) else {
        return;
    };
    let kind = if uc { QpKind::Uc } else { QpKind::Rc };
    let keeps = <[bool; 2]>::arbitrary(&mut input).unwrap_or_default();
    let mut world = World::new(kind, input);
    for (end, keeps) in world.ends.iter_mut().zip(keeps) {
        end.host.port.keeps = keeps;
    }
    for (side, works) in works.iter().enumerate() {
        for work in works.iter().take(SLOTS) {
            world.post(side, *work);
        }
    }
    world.run();
    world.check();
});

impl<'a> World<'a> {
    fn new(kind: QpKind, fates: Unstructured<'a>) -> Self {
        let now = Instant::from_nanos(1);
        let mut ends = [End::new(1, kind), End::new(2, kind)];
        let psns = [Psn::new(0xff_fffc), Psn::new(0x7f_fffe)];
        let qpns = [ends[0].qpn, ends[1].qpn];
        for side in 0..2 {
            let peer = Peer {
                host: 2 - side as u8,
                qpn: qpns[1 - side],
                psn: psns[1 - side],
                own_psn: psns[side],
            };
            let End { host, qpn, .. } = &mut ends[side];
            host.bring_to(now, *qpn, kind, peer, QpState::Rts);
            ends[side].post_receives(now);
        }
        Self {
            now,
            ends,
            wire: VecDeque::new(),
            fates,
            faults: 0,
            kind,
        }
    }

    fn post(&mut self, side: usize, work: Work) {
        let peer = &self.ends[1 - side];
        let slot = self.ends[side].posted.len();
        let at = (slot * SLOT) as u64;
        let (write_to, read_from) = (peer.target.remote(at), peer.source.remote(at));
        let counter = peer.counter.remote(0);
        let end = &mut self.ends[side];
        let (op, sge) = match work {
            Work::Send { len, imm: false } => (SendOp::Send, end.source.sge(at, bytes(len))),
            Work::Send { len, imm: true } => {
                let imm = SendOp::SendImm(slot as u32);
                (imm, end.source.sge(at, bytes(len)))
            }
            Work::Write { len, imm: false } => {
                (SendOp::Write(write_to), end.source.sge(at, bytes(len)))
            }
            Work::Write { len, imm: true } => {
                let op = SendOp::WriteImm(write_to, slot as u32);
                (op, end.source.sge(at, bytes(len)))
            }
            Work::Read { len } => (SendOp::Read(read_from), end.fetched.sge(at, bytes(len))),
            Work::Add => {
                let add = SendOp::FetchAdd {
                    remote: counter,
                    add: 1,
                };
                (add, end.fetched.sge(at, 8))
            }
        };
        let wr = SendRequest::new(slot as u64, op, sge);
        // UC has neither READs nor atomics.
        if end.host.nic.post_send(self.now, end.qpn, &wr).is_ok() {
            end.posted.push(work);
        }
    }

    /// Runs until there is neither a packet nor a timer left.
    fn run(&mut self) {
        for _ in 0..100_000 {
            for side in 0..2 {
                for frame in self.ends[side].host.transmit(self.now) {
                    self.carry(side, frame);
                }
                self.ends[side].collect();
            }
            let arrival = self.wire.iter().map(|(at, ..)| *at).min();
            let timeouts = self.ends.iter().filter_map(|e| e.host.nic.next_timeout());
            let Some(next) = timeouts.chain(arrival).min() else {
                return;
            };
            self.now = self.now.max(next);
            let (due, rest) = std::mem::take(&mut self.wire)
                .into_iter()
                .partition(|(at, ..)| *at <= self.now);
            self.wire = rest;
            let due: VecDeque<(Instant, usize, Frame)> = due;
            for (_, from, mut frame) in due {
                self.ends[from].host.port.arrive(&mut frame);
                let nic = &mut self.ends[1 - from].host.nic;
                nic.receive(self.now, &frame.meta, &frame.bytes);
            }
            for end in &mut self.ends {
                end.host.nic.handle_timeouts(self.now);
                end.collect();
            }
        }
        panic!("it does not end");
    }

    fn carry(&mut self, from: usize, mut frame: Frame) {
        let mut fate = Fate::Deliver;
        if self.faults < MAX_FAULTS && !self.fates.is_empty() {
            fate = Fate::arbitrary(&mut self.fates).unwrap_or(Fate::Deliver);
            self.faults += 1;
        }
        let mut at = self.now + Duration::from_micros(2);
        match fate {
            Fate::Deliver => {}
            Fate::Drop => return,
            Fate::Twice => self.wire.push_back((at, from, frame.clone())),
            Fate::Late { micros } => at = at + Duration::from_micros(micros.into()),
            Fate::Damage { bit } => {
                let bit = usize::from(bit) % (8 * frame.bytes.len());
                // The ICRC does not cover byte 4.
                if bit / 8 != 4 {
                    frame.bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
        self.wire.push_back((at, from, frame));
    }

    fn check(&self) {
        for side in 0..2 {
            let (end, peer) = (&self.ends[side], &self.ends[1 - side]);
            assert_eq!(end.done.len(), end.posted.len(), "everything ends");
            let mut failed = false;
            for (slot, completion) in end.done.iter().enumerate() {
                assert_eq!(completion.wr_id, slot as u64, "in order");
                let ok = completion.status == WcStatus::Success;
                assert!(!(ok && failed), "success behind a failure");
                failed |= !ok;
                check_placed(end, peer, slot, ok && self.kind == QpKind::Rc);
            }
            check_received(end, peer, self.kind);
            check_counter(end, peer);
            assert!(end.source.read(0, SLOT * SLOTS) == pattern(end.host.number));
        }
    }
}

/// Checks a request's destination: all of its bytes are written if it succeeded, and no others in
/// any case.
fn check_placed(end: &End, peer: &End, slot: usize, succeeded: bool) {
    let at = slot * SLOT;
    let target = peer.target.read(at, SLOT);
    let fetched = end.fetched.read(at, SLOT);
    let mut wrote = 0;
    let mut read = 0;
    match end.posted[slot] {
        Work::Write { len, .. } => {
            wrote = bytes(len) as usize;
            let sent = end.source.read(at, wrote);
            let placed = |(now, then): (&u8, &u8)| now == then || !succeeded && *now == 0;
            assert!(target.iter().zip(&sent).all(placed), "slot {slot}");
        }
        Work::Read { len } => {
            read = bytes(len) as usize;
            let there = peer.source.read(at, read);
            let placed = |(now, then): (&u8, &u8)| now == then || !succeeded && *now == 0;
            assert!(fetched.iter().zip(&there).all(placed), "slot {slot}");
        }
        Work::Add => read = 8,
        Work::Send { .. } => {}
    }
    assert!(target[wrote..].iter().all(|byte| *byte == 0));
    assert!(fetched[read..].iter().all(|byte| *byte == 0));
}

/// Receives contain what the peer sent: with RC all messages in order; with UC whole messages, some
/// of which the wire may have lost, duplicated or reordered.
fn check_received(end: &End, peer: &End, kind: QpKind) {
    let consumes = |work: &Work| matches!(work, Work::Send { .. } | Work::Write { imm: true, .. });
    let sent: Vec<_> = peer
        .posted
        .iter()
        .enumerate()
        .filter(|(_, work)| consumes(work))
        .collect();
    for (n, completion) in end.received.iter().enumerate() {
        assert_eq!(completion.wr_id, n as u64, "in order");
        if completion.status != WcStatus::Success {
            continue;
        }
        let candidates = match kind {
            QpKind::Rc => sent.get(n..=n).unwrap_or_default(),
            _ => &sent[..],
        };
        let found = candidates
            .iter()
            .any(|(slot, work)| is_what_came(end, peer, n, completion, *slot, work));
        assert!(found, "{completion:?} is not what was sent: {candidates:?}");
    }
}

fn is_what_came(
    end: &End,
    peer: &End,
    n: usize,
    completion: &Completion,
    slot: usize,
    work: &Work,
) -> bool {
    let (len, imm, opcode) = match *work {
        Work::Send { len, imm } => (len, imm, WcOpcode::Recv),
        Work::Write { len, imm } => (len, imm, WcOpcode::RecvRdmaWithImm),
        _ => return false,
    };
    let len = bytes(len);
    let says = completion.byte_len == len
        && completion.opcode == opcode
        && completion.imm == imm.then_some(slot as u32);
    says && (opcode != WcOpcode::Recv
        || end.inbox.read(n * SLOT, len as usize) == peer.source.read(slot * SLOT, len as usize))
}

/// Each atomic was executed at most once, and each successful one exactly once.
fn check_counter(end: &End, peer: &End) {
    let value = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
    let counted = value(peer.counter.read(0, 8));
    let adds = |(slot, work): &(usize, &Work)| matches!(work, Work::Add).then_some(*slot);
    let slots: Vec<_> = end
        .posted
        .iter()
        .enumerate()
        .filter_map(|p| adds(&p))
        .collect();
    let mut succeeded = 0;
    for slot in &slots {
        if end.done[*slot].status == WcStatus::Success {
            assert_eq!(value(end.fetched.read(slot * SLOT, 8)), succeeded);
            succeeded += 1;
        }
    }
    assert!(succeeded <= counted && counted <= slots.len() as u64);
}

impl End {
    fn new(number: u8, kind: QpKind) -> Self {
        let mut host = Host::new(number);
        let init = host.qp_init(kind);
        let qpn = host.nic.create_qp(init).expect("a QP");
        let pd = host.pd;
        let source = host.mem(pd, SLOT * SLOTS, Access::REMOTE_READ);
        source
            .buffer
            .write(0, &pattern(number))
            .expect("within the buffer");
        let remote_write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let remote_atomic = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
        Self {
            qpn,
            source,
            target: host.mem(pd, SLOT * SLOTS, remote_write),
            fetched: host.mem(pd, SLOT * SLOTS, Access::LOCAL_WRITE),
            inbox: host.mem(pd, SLOT * SLOTS, Access::LOCAL_WRITE),
            counter: host.mem(pd, 8, remote_atomic),
            host,
            posted: Vec::new(),
            done: Vec::new(),
            received: Vec::new(),
        }
    }

    fn post_receives(&mut self, now: Instant) {
        for slot in 0..SLOTS {
            let sges = [self.inbox.sge((slot * SLOT) as u64, SLOT as u32)];
            let wr = RecvRequest {
                wr_id: slot as u64,
                sges: &sges,
            };
            self.host
                .nic
                .post_recv(now, self.qpn, &wr)
                .expect("there is room");
        }
    }

    fn collect(&mut self) {
        while self.host.nic.poll_event().is_some() {}
        self.done.extend(self.host.completions(true));
        self.received.extend(self.host.completions(false));
    }
}

fn bytes(len: u16) -> u32 {
    u32::from(len) % (SLOT as u32 + 1)
}

/// Bytes that identify their source by `salt`; none is 0.
fn pattern(salt: u8) -> Vec<u8> {
    (0..SLOT * SLOTS)
        .map(|at| ((at * 31 + at / SLOT * 7 + usize::from(salt) * 101) % 255 + 1) as u8)
        .collect()
}
