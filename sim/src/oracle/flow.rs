//! What one QP asks of its peer: requests in order, and how far each has got.

use super::area::{Bytes, Content};
use super::words::WordOp;
use super::{AreaName, FlowAreas, Pair, Verdict, Violation, judge, violated};
use core::ops::Range;
use roce_stack::{Completion, WcOpcode, WcStatus};
use std::collections::BTreeMap;

/// What a send request does to memory.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Its bytes go to the peer's next receive.
    Send {
        /// The bytes.
        bytes: Bytes,
        /// The immediate data.
        imm: Option<u32>,
    },
    /// Its bytes go to the target at `at`.
    Write {
        /// Where.
        at: usize,
        /// The bytes.
        bytes: Bytes,
        /// The immediate data, for which a receive is consumed.
        imm: Option<u32>,
    },
    /// The target's bytes `range` go to `out` at `to`.
    Read {
        /// Which bytes.
        range: Range<usize>,
        /// Where to.
        to: usize,
    },
    /// An atomic on a word of a host; the value from before goes to `out`.
    Word {
        /// Whose word.
        host: usize,
        /// Which.
        word: usize,
        /// What is done.
        op: WordOp,
    },
}

/// A send request that was accepted; its `wr_id` is its number in the flow.
#[derive(Clone, Debug)]
pub struct PostedSend {
    /// What it does.
    pub effect: Effect,
    /// Where in `out` an atomic's result goes.
    pub lands_at: usize,
    /// It asks for a completion.
    pub signaled: bool,
    /// It waits for READs and atomics before it.
    pub fence: bool,
    /// It is wrong in a way that it must not survive.
    pub fails: bool,
    /// What is wrong lies on this side; the peer has nothing to refuse.
    pub fails_locally: bool,
    /// Statuses that what is wrong with it justifies.
    pub statuses: &'static [WcStatus],
    /// What the completion says.
    pub opcode: WcOpcode,
    /// How long it is.
    pub len: u32,
}

impl PostedSend {
    /// Whether the peer can't have executed it: what fails here does so before it is
    /// sent, unless it fails when its result lands.
    fn must_not_execute(&self) -> bool {
        let fetches = matches!(self.effect, Effect::Read { .. } | Effect::Word { .. });
        self.fails && !(self.fails_locally && fetches)
    }
}

/// A receive request that was accepted; its `wr_id` is its number in the flow.
#[derive(Clone, Copy, Debug)]
pub struct PostedRecv {
    /// Where in the inbox.
    pub at: usize,
    /// How long.
    pub len: usize,
}

/// A READ that has not completed: what its range held meanwhile.
#[derive(Debug, Default)]
struct Reading {
    before: Vec<Vec<u8>>,
    /// The area was frozen meanwhile.
    unknown: bool,
}

/// An atomic's result: number of the request, host, word, value from before.
pub(super) type Fetched = (usize, usize, usize, u64);

/// One direction.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) areas: FlowAreas,
    pub(super) sends: Vec<PostedSend>,
    recvs: Vec<PostedRecv>,
    /// The requests that consume a receive, in order.
    consuming: Vec<usize>,
    /// Everything before it has completed, or is known to need no completion.
    next: usize,
    /// The peer has executed everything before it.
    executed: usize,
    /// Receives that have completed.
    received: usize,
    pub(super) send_failed: bool,
    recv_failed: bool,
    reading: BTreeMap<usize, Reading>,
    /// Regions that were deregistered: out, target, inbox.
    pub(super) regions_gone: [bool; 3],
}

impl Flow {
    pub(super) fn new(areas: FlowAreas) -> Self {
        Self {
            areas,
            sends: Vec::new(),
            recvs: Vec::new(),
            consuming: Vec::new(),
            next: 0,
            executed: 0,
            received: 0,
            send_failed: false,
            recv_failed: false,
            reading: BTreeMap::new(),
            regions_gone: [false; 3],
        }
    }

    pub(super) fn posted(&self) -> usize {
        self.sends.len()
    }

    pub(super) fn outstanding(&self) -> usize {
        self.sends.len() - self.next
    }

    pub(super) fn outstanding_recvs(&self) -> usize {
        self.recvs.len() - self.received
    }

    pub(super) fn post_send(&mut self, send: PostedSend) {
        let id = self.sends.len();
        let areas = &mut self.areas;
        match &send.effect {
            Effect::Write { at, bytes, .. } if !send.fails => {
                areas.target.begin(id, *at, Content::Known(bytes.clone()));
            }
            Effect::Read { range, to } => {
                areas.out.begin(id, *to, Content::Anything(range.len()));
                self.reading.insert(id, Reading::default());
            }
            Effect::Word { .. } => areas.out.begin(id, send.lands_at, Content::Anything(8)),
            Effect::Send { .. } | Effect::Write { .. } => {}
        }
        let consumes = matches!(
            send.effect,
            Effect::Send { .. } | Effect::Write { imm: Some(_), .. }
        );
        self.sends.push(send);
        if consumes {
            self.consuming.push(id);
            self.meet(self.consuming.len() - 1);
        }
    }

    pub(super) fn post_recv(&mut self, recv: PostedRecv) {
        self.recvs.push(recv);
        self.meet(self.recvs.len() - 1);
    }

    /// Request and receive number `n` have both been posted: bytes may move.
    fn meet(&mut self, n: usize) {
        let (Some(recv), Some(&send)) = (self.recvs.get(n), self.consuming.get(n)) else {
            return;
        };
        if let Effect::Send { bytes, .. } = &self.sends[send].effect {
            let fits = bytes.len().min(recv.len);
            let content = Content::Known(bytes[..fits].into());
            self.areas.inbox.begin(n, recv.at, content);
        }
    }

    /// The QP is gone: what was posted never completes.
    pub(super) fn abandon(&mut self) {
        self.next = self.sends.len();
        self.send_failed = true;
        self.reading.clear();
    }

    pub(super) fn gone(&mut self, area: AreaName) {
        self.regions_gone[area as usize] = true;
    }

    pub(super) fn is_gone(&self, area: AreaName) -> bool {
        self.regions_gone[area as usize]
    }

    pub(super) fn freeze(&mut self, area: AreaName) -> Verdict {
        let what = match area {
            AreaName::Out => &mut self.areas.out,
            AreaName::Target => {
                for reading in self.reading.values_mut() {
                    reading.unknown = true;
                }
                &mut self.areas.target
            }
            AreaName::Inbox => &mut self.areas.inbox,
        };
        what.freeze()
            .map_err(|Violation(what)| Violation(format!("{area:?}: {what}")))
    }

    /// The peer has executed every request up to number `last`.
    fn executed_through(&mut self, last: usize) -> Verdict {
        while self.executed <= last {
            let id = self.executed;
            let send = &self.sends[id];
            if send.must_not_execute() {
                return violated(format!("request {id} was executed, but must be refused"));
            }
            if let Effect::Write { at, bytes, .. } = &send.effect {
                let wrote = *at..at + bytes.len();
                self.remember_for_readers(id, &wrote);
                self.areas.target.settle(id);
                self.areas
                    .target
                    .check(wrote)
                    .map_err(|Violation(what)| Violation(format!("WRITE {id}: {what}")))?;
            }
            self.executed += 1;
        }
        Ok(())
    }

    /// READs that were posted before request `id` may have seen what it overwrites.
    fn remember_for_readers(&mut self, id: usize, wrote: &Range<usize>) {
        for (reader, reading) in self.reading.range_mut(..id) {
            let Effect::Read { range, .. } = &self.sends[*reader].effect else {
                continue;
            };
            if range.start < wrote.end && wrote.start < range.end {
                let then = self.areas.target.image(range.clone());
                reading.before.push(then.to_vec());
            }
        }
    }

    /// Request `id` has succeeded.
    fn succeed(&mut self, id: usize) -> Result<Option<Fetched>, Violation> {
        self.executed_through(id)?;
        let send = &self.sends[id];
        if send.fails {
            return violated(format!("request {id} succeeded, but must fail"));
        }
        match send.effect.clone() {
            Effect::Read { range, to } => {
                self.check_read(id, range, to)?;
                self.areas.out.settle(id);
            }
            Effect::Word { host, word, .. } => {
                let at = send.lands_at;
                let bytes = self.areas.out.actual(at..at + 8);
                self.areas.out.settle(id);
                let old = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                return Ok(Some((id, host, word, old)));
            }
            Effect::Send { .. } | Effect::Write { .. } => {}
        }
        Ok(None)
    }

    /// Request `id` did not succeed; what it may have done at the peer stays possible.
    fn fail(&mut self, id: usize) {
        self.send_failed = true;
        self.reading.remove(&id);
        // Nothing lands here any more.
        self.areas.out.settle(id);
    }

    /// What a READ brought must have been there at some time.
    fn check_read(&mut self, id: usize, range: Range<usize>, to: usize) -> Verdict {
        let Some(reading) = self.reading.remove(&id) else {
            return Ok(());
        };
        let target = &self.areas.target;
        let landed = self.areas.out.actual(to..to + range.len());
        let unknowable = reading.unknown || target.is_frozen() || self.areas.out.is_frozen();
        if unknowable || landed == target.image(range.clone()) {
            return Ok(());
        }
        // What is behind a fence can't have been executed before the READ was done.
        let fence = (id + 1..self.sends.len()).find(|later| self.sends[*later].fence);
        let fence = fence.unwrap_or(usize::MAX);
        for (offset, byte) in landed.into_iter().enumerate() {
            let at = range.start + offset;
            let then = reading.before.iter().any(|before| before[offset] == byte);
            let by_later = |open: &super::area::Open| {
                let Content::Known(bytes) = &open.bytes else {
                    return false;
                };
                let inside = (open.at..open.at + bytes.len()).contains(&at);
                open.id < fence && inside && bytes[at - open.at] == byte
            };
            let now = target.image(at..at + 1) == [byte];
            if !now && !then && !target.open().iter().any(by_later) {
                return violated(format!(
                    "READ {id} brought {byte:#04x} for byte {at}, which was never there"
                ));
            }
        }
        Ok(())
    }
}

impl Pair {
    /// A send request of `side` has completed. Returns what atomics fetched.
    pub(super) fn send_completed(
        &mut self,
        side: usize,
        done: &Completion,
    ) -> Result<Vec<Fetched>, Violation> {
        let mut fetched = Vec::new();
        let flow = &mut self.flows[side];
        let id = usize::try_from(done.wr_id).unwrap_or(usize::MAX);
        if id < flow.next || id >= flow.sends.len() {
            return violated(format!(
                "a completion for request {id}, but {} to {} are outstanding",
                flow.next,
                flow.sends.len()
            ));
        }
        // What comes before it and asked for no completion has succeeded.
        for before in flow.next..id {
            if flow.sends[before].signaled || flow.send_failed {
                return violated(format!("request {before} has not completed yet"));
            }
            fetched.extend(flow.succeed(before)?);
        }
        flow.next = id + 1;
        judge::send(self, side, id, done)?;
        let flow = &mut self.flows[side];
        if done.status == WcStatus::Success {
            fetched.extend(flow.succeed(id)?);
        } else {
            flow.fail(id);
            self.qps[side].may_be_broken = true;
        }
        Ok(fetched)
    }

    /// A receive of `side` has completed.
    pub(super) fn recv_completed(&mut self, side: usize, done: &Completion) -> Verdict {
        let n = self.flows[1 - side].received;
        let flow = &mut self.flows[1 - side];
        let Some(recv) = flow.recvs.get(n).copied() else {
            return violated("a receive completed that was not posted".to_owned());
        };
        if done.wr_id != n as u64 {
            return violated(format!("receive {} completed instead of {n}", done.wr_id));
        }
        flow.received += 1;
        let send = flow.consuming.get(n).copied();
        judge::recv(self, side, send, done)?;
        let flow = &mut self.flows[1 - side];
        if done.status != WcStatus::Success {
            flow.recv_failed = true;
            self.qps[side].may_be_broken = true;
            return Ok(());
        }
        if flow.recv_failed {
            return violated("a receive succeeded after one that failed".to_owned());
        }
        if let Some(send) = send {
            flow.executed_through(send)?;
        }
        flow.areas.inbox.settle(n);
        flow.areas
            .inbox
            .check(recv.at..recv.at + recv.len)
            .map_err(|Violation(what)| Violation(format!("receive {n}: {what}")))
    }

    /// Nothing moves any more.
    pub(super) fn at_rest(&mut self, side: usize, queued: Option<(usize, usize)>) -> Verdict {
        if let Some((sends, receives)) = queued {
            let flow = &mut self.flows[side];
            for id in flow.next..flow.sends.len() {
                if flow.sends[id].signaled || flow.send_failed {
                    return violated(format!("request {id} never completed"));
                }
                // An atomic's result was not asked for; it may stay unknown.
                flow.succeed(id)?;
            }
            flow.next = flow.sends.len();
            let posted = self.flows[1 - side].outstanding_recvs();
            if sends != 0 || receives != posted {
                return violated(format!(
                    "{sends} sends and {receives} receives are queued, but should be 0 and {posted}"
                ));
            }
        }
        let FlowAreas { out, target, inbox } = &self.flows[side].areas;
        for (name, area) in [("out", out), ("target", target), ("inbox", inbox)] {
            area.check_all()
                .map_err(|Violation(what)| Violation(format!("{name}: {what}")))?;
        }
        Ok(())
    }
}
