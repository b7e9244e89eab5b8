//! Executes a plan and checks all results.

use super::plan::{Kind, Plan, Request};
use crate::sim::{A, B, Mem, Pair, pattern};
use roce_stack::{
    Completion, PostError, QpState, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Stat,
    WcOpcode, WcStatus,
};
use std::collections::VecDeque;
use testkit::Dice;

/// The words that atomics work on.
const WORDS: usize = 4;

/// The requests of one end, and its progress.
struct Initiator {
    /// Local memory: each request has a stretch of its own.
    local: Mem,
    /// The peer's memory for WRITE and READ, likewise.
    remote: Mem,
    /// The peer's memory for atomics, which only this end uses.
    words: Mem,
    /// The values of the words when the next atomic is posted.
    model: [u64; WORDS],
    /// The peer's memory for receives, a stretch for each.
    inbox: Mem,
    /// Where each request's stretch begins.
    offsets: Vec<usize>,
    posted: usize,
    received_posted: usize,
    checks: VecDeque<(u64, Check)>,
    /// Requests that will consume a receive, in order.
    deliveries: Vec<usize>,
    delivered: usize,
}

/// The check of a completed request.
enum Check {
    Nothing,
    Read,
    Fetched(u64),
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    /// An end has used up its retries.
    RetriesUsedUp,
}

pub(super) fn soak(seed: u64) -> End {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(seed, &mut dice);
    let mut pair = Pair::new(plan.setup);
    for side in [A, B] {
        pair.links[side].faults = plan.faults[side];
        pair.nodes[side].port.max_queued = plan.room;
    }
    let mut ends = [A, B].map(|side| Initiator::new(&mut pair, side, &plan.work[side]));
    // Posting is random, too, so the wire may be idle for a while.
    let mut at_rest = 0;
    loop {
        for side in [A, B] {
            let end = &mut ends[side];
            end.post_receives(&mut pair, side, &plan, &mut dice);
            end.post_sends(&mut pair, side, &plan.work[side], &mut dice);
        }
        at_rest = if pair.step() { 0 } else { at_rest + 1 };
        assert!(at_rest < 1000, "idle before the end: {plan:?}");
        if [A, B].iter().any(|side| has_given_up(&pair, &plan, *side)) {
            return End::RetriesUsedUp;
        }
        for side in [A, B] {
            ends[side].check(&pair, side, &plan.work[side]);
        }
        if [A, B]
            .iter()
            .all(|&side| ends[side].is_done(&plan.work[side]))
        {
            break;
        }
    }
    pair.run();
    for side in [A, B] {
        ends[side].check(&pair, side, &plan.work[side]);
        ends[side].check_memory(&pair, side, &plan.work[side]);
    }
    End::Complete
}

/// Whether an end has used up its retries, as it may if the wire is bad enough.
fn has_given_up(pair: &Pair, plan: &Plan, side: usize) -> bool {
    if pair.state(side) != QpState::Err {
        return false;
    }
    let node = &pair.nodes[side];
    let sent = node.sent();
    let gave_up = sent
        .iter()
        .any(|done| done.status == WcStatus::RetryExceeded);
    assert!(gave_up, "failed for another reason: {sent:?} {plan:?}");
    let counters = node.nic.counters();
    let retries = [
        Stat::Timeouts,
        Stat::ImpliedNaks,
        Stat::SequenceNaksReceived,
    ];
    let tried: u64 = retries.into_iter().map(|stat| counters.stat(stat)).sum();
    let lost = plan.faults.map(|faults| faults.drop + faults.corrupt);
    let justified = tried > plan.setup.retry_cnt.into() && lost.into_iter().max() >= Some(500);
    assert!(justified, "gave up without need: {plan:?}");
    true
}

fn salt(side: usize, index: usize) -> u64 {
    (side as u64) << 32 | index as u64
}

impl Initiator {
    fn new(pair: &mut Pair, side: usize, work: &[Request]) -> Self {
        let mut offsets = vec![0];
        for request in work {
            // A gap of 16 bytes that must not change.
            let last = offsets.last().copied().unwrap_or(0);
            offsets.push((last + request.len + 16).next_multiple_of(8));
        }
        let total = offsets.last().copied().unwrap_or(0);
        let local = pair.mem(side, total);
        let remote = pair.mem(1 - side, total);
        for (index, request) in work.iter().enumerate() {
            let data = pattern(salt(side, index), request.len);
            let source = if request.kind == Kind::Read {
                &remote
            } else {
                &local
            };
            source.write(offsets[index], &data);
        }
        let deliveries = (0..work.len())
            .filter(|i| work[*i].kind.consumes_receive())
            .collect();
        Self {
            local,
            remote,
            words: pair.mem(1 - side, WORDS * 8),
            model: [0; WORDS],
            inbox: pair.mem(1 - side, total),
            offsets,
            posted: 0,
            received_posted: 0,
            checks: VecDeque::new(),
            deliveries,
            delivered: 0,
        }
    }

    /// Posts receives at the peer, for the requests of this end.
    fn post_receives(&mut self, pair: &mut Pair, side: usize, plan: &Plan, dice: &mut Dice) {
        while let Some(&index) = self.deliveries.get(self.received_posted) {
            if plan.stingy && !dice.one_in(20) {
                return;
            }
            let request = &plan.work[side][index];
            let elements = 1 + dice.below(4);
            let sges = split(
                &self.inbox,
                self.offsets[index],
                request.len,
                elements,
                dice,
            );
            let wr = RecvRequest {
                wr_id: index as u64,
                sges: &sges,
            };
            let node = &mut pair.nodes[1 - side];
            match node.nic.post_recv(pair.now, node.qpn, &wr) {
                Ok(()) => self.received_posted += 1,
                Err(PostError::QueueFull { .. }) => return,
                Err(error) => panic!("{error}: {plan:?}"),
            }
        }
    }

    fn post_sends(&mut self, pair: &mut Pair, side: usize, work: &[Request], dice: &mut Dice) {
        while let Some(request) = work.get(self.posted) {
            if dice.one_in(3) {
                return;
            }
            let index = self.posted;
            let offset = self.offsets[index];
            let word = dice.below(WORDS);
            let before = self.model[word];
            let (op, check) = self.operation(request, index, word, dice);
            let sges = split(&self.local, offset, request.len, request.elements, dice);
            let mut flags = SendFlags::empty();
            flags.set(SendFlags::SIGNALED, request.signaled);
            flags.set(SendFlags::FENCE, request.fence);
            flags.set(SendFlags::SOLICITED, request.solicited);
            let wr = SendRequest::new(index as u64, op, &sges).with_flags(flags);
            let node = &mut pair.nodes[side];
            match node.nic.post_send(pair.now, node.qpn, &wr) {
                Ok(()) => self.posted += 1,
                Err(PostError::QueueFull { .. }) => {
                    self.model[word] = before;
                    return;
                }
                Err(error) => panic!("{error}: {:?}", pair.setup),
            }
            if request.signaled || pair.setup.signal_all {
                self.checks.push_back((index as u64, check));
            }
        }
    }

    fn operation(
        &mut self,
        request: &Request,
        index: usize,
        word: usize,
        dice: &mut Dice,
    ) -> (SendOp, Check) {
        let remote = self.remote.remote(self.offsets[index]);
        let imm = index as u32 ^ 0x5a5a_0000;
        let before = self.model[word];
        let op = match request.kind {
            Kind::Send => SendOp::Send,
            Kind::SendImm => SendOp::SendImm(imm),
            Kind::Write => SendOp::Write(remote),
            Kind::WriteImm => SendOp::WriteImm(remote, imm),
            Kind::Read => return (SendOp::Read(remote), Check::Read),
            Kind::FetchAdd => {
                let add = dice.below(1 << 30) as u64;
                self.model[word] = before.wrapping_add(add);
                let remote = self.words.remote(word * 8);
                return (SendOp::FetchAdd { remote, add }, Check::Fetched(before));
            }
            Kind::CompareSwap => {
                let compare = if dice.one_in(3) { before ^ 1 } else { before };
                let swap = dice.below(1 << 30) as u64;
                if compare == before {
                    self.model[word] = swap;
                }
                let op = SendOp::CompareSwap {
                    remote: self.words.remote(word * 8),
                    compare,
                    swap,
                };
                return (op, Check::Fetched(before));
            }
        };
        (op, Check::Nothing)
    }

    /// Takes the completions of both ends and checks them against the plan.
    fn check(&mut self, pair: &Pair, side: usize, work: &[Request]) {
        for done in pair.nodes[side].sent() {
            let (wr_id, check) = self.checks.pop_front().expect("a completion too many");
            assert_eq!(done.wr_id, wr_id, "out of order");
            assert_eq!(done.status, WcStatus::Success, "{:?}", pair.setup);
            let index = wr_id as usize;
            let (offset, len) = (self.offsets[index], work[index].len);
            match check {
                Check::Nothing => {}
                Check::Read => {
                    let expected = pattern(salt(side, index), len);
                    assert!(self.local.read(offset, len) == expected, "READ {index}");
                }
                Check::Fetched(before) => {
                    assert_eq!(self.local.word(offset), before, "atomic {index}");
                }
            }
        }
        for done in pair.nodes[1 - side].received() {
            let index = self.deliveries[self.delivered];
            self.delivered += 1;
            self.check_delivery(&done, side, index, &work[index]);
        }
    }

    fn check_delivery(&self, done: &Completion, side: usize, index: usize, request: &Request) {
        assert_eq!(done.wr_id, index as u64, "out of order");
        assert_eq!(done.status, WcStatus::Success);
        assert_eq!(done.byte_len as usize, request.len);
        let imm = (request.kind != Kind::Send).then_some(index as u32 ^ 0x5a5a_0000);
        assert_eq!(done.imm, imm);
        let (opcode, place) = match request.kind {
            Kind::WriteImm => (WcOpcode::RecvRdmaWithImm, &self.remote),
            _ => (WcOpcode::Recv, &self.inbox),
        };
        assert_eq!(done.opcode, opcode);
        let data = pattern(salt(side, index), request.len);
        let landed = place.read(self.offsets[index], request.len);
        assert!(landed == data, "delivery {index} differs");
    }

    fn is_done(&self, work: &[Request]) -> bool {
        self.posted == work.len()
            && self.checks.is_empty()
            && self.delivered == self.deliveries.len()
    }

    /// Checks the final contents of memory, gaps included.
    fn check_memory(&self, pair: &Pair, side: usize, work: &[Request]) {
        for (word, expected) in self.model.iter().enumerate() {
            assert_eq!(self.words.word(word * 8), *expected, "{:?}", pair.setup);
        }
        for (index, request) in work.iter().enumerate() {
            let (offset, len) = (self.offsets[index], request.len);
            let gap = offset + len..self.offsets[index + 1];
            let data = pattern(salt(side, index), len);
            let writes = matches!(request.kind, Kind::Write | Kind::WriteImm);
            let reads = request.kind == Kind::Read;
            let sends = matches!(request.kind, Kind::Send | Kind::SendImm);
            for (mem, holds) in [(&self.remote, writes || reads), (&self.inbox, sends)] {
                let expected = if holds { data.clone() } else { vec![0; len] };
                assert!(mem.read(offset, len) == expected, "memory of {index}");
                assert!(mem.read(gap.start, gap.len()).iter().all(|b| *b == 0));
            }
            assert!(
                self.local
                    .read(gap.start, gap.len())
                    .iter()
                    .all(|b| *b == 0)
            );
        }
    }
}

/// `len` bytes of `mem` from `offset` on, as a list of `elements` elements.
fn split(mem: &Mem, offset: usize, len: usize, elements: usize, dice: &mut Dice) -> Vec<Sge> {
    let mut cuts: Vec<usize> = (1..elements).map(|_| dice.below(len + 1)).collect();
    cuts.push(len);
    cuts.sort_unstable();
    let mut from = 0;
    cuts.into_iter()
        .map(|to| {
            let sge = mem.sge(offset + from, to - from);
            from = to;
            sge
        })
        .collect()
}
