//! The requests of one QP to its peer, in order, and their progress.

use super::area::{Area, Content, PendingOp};
use super::request::{Effect, PostedRecv, PostedSend};
use super::{AreaName, FlowAreas, Verdict, Violation, about, violated};
use core::ops::Range;
use roce_stack::WcStatus;
use std::collections::{BTreeMap, BTreeSet};

/// A READ that has not completed, with the earlier contents of its range.
#[derive(Debug, Default)]
struct PendingRead {
    /// The contents of the range before each WRITE that changed it.
    before: Vec<Vec<u8>>,
    /// WRITEs whose key was revoked since the READ was posted, in their state before the
    /// revocation.
    ended_writes: Vec<PendingOp>,
    /// Whether the target was frozen since the READ was posted.
    target_frozen: bool,
}

/// An atomic's result: number of the request, host, word, previous value.
pub(super) type Fetched = (usize, usize, usize, u64);

/// One direction of a pair.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(super) areas: FlowAreas,
    /// Whether the success of a request means that the peer has executed it.
    pub(super) reliable: bool,
    pub(super) sends: Vec<PostedSend>,
    pub(super) recvs: Vec<PostedRecv>,
    /// The requests that consume a receive, in order.
    pub(super) consuming: Vec<usize>,
    /// All requests before this one have completed, or need no completion.
    pub(super) next: usize,
    /// The peer has executed all requests before this one. It may still be answering READs,
    /// starting with `answered`.
    pub(super) executed: usize,
    /// All READs before this one have been answered completely.
    pub(super) answered: usize,
    /// Number of completed receives.
    pub(super) received: usize,
    pub(super) send_failed: bool,
    pub(super) recv_failed: bool,
    /// Used if its receives come from a pool.
    pub(super) arrivals: Arrivals,
    pending_reads: BTreeMap<usize, PendingRead>,
    /// The keys of the target.
    pub(super) keys: Keys,
    /// Regions that were deregistered: out, target, inbox.
    pub(super) deregistered: [bool; 3],
    /// Memory that the target consisted of before it was moved.
    pub(super) retired: Vec<Area>,
    /// WRITEs that may have been executed before the target was moved.
    pub(super) relocated: BTreeSet<usize>,
}

impl Flow {
    pub(super) fn new(areas: FlowAreas, reliable: bool) -> Self {
        Self {
            areas,
            reliable,
            sends: Vec::new(),
            recvs: Vec::new(),
            consuming: Vec::new(),
            next: 0,
            executed: 0,
            answered: 0,
            received: 0,
            send_failed: false,
            recv_failed: false,
            arrivals: Arrivals::default(),
            pending_reads: BTreeMap::new(),
            keys: Keys::default(),
            deregistered: [false; 3],
            retired: Vec::new(),
            relocated: BTreeSet::new(),
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

    /// A request was accepted. `due` says that it consumes a receive and must arrive.
    pub(super) fn post_send(&mut self, send: PostedSend, due: bool) {
        let id = self.sends.len();
        self.sends.push(send);
        self.check_key(id);
        let send = &self.sends[id];
        let areas = &mut self.areas;
        match &send.effect {
            Effect::Write { at, bytes, .. } if !send.fails => {
                areas.target.begin(id, *at, Content::Known(bytes.clone()));
            }
            Effect::Read { range, to } => {
                areas.out.begin(id, *to, Content::Anything(range.len()));
                self.pending_reads.insert(id, PendingRead::default());
            }
            Effect::Word { .. } => areas.out.begin(id, send.lands_at, Content::Anything(8)),
            _ => {}
        }
        if send.consumes_receive() {
            self.consuming.push(id);
            self.arrivals.posted(due);
            self.match_recv(self.consuming.len() - 1);
        }
    }

    pub(super) fn post_recv(&mut self, recv: PostedRecv) {
        self.recvs.push(recv);
        self.match_recv(self.recvs.len() - 1);
    }

    /// Once both request and receive number `n` are posted, the request's bytes may land in the
    /// receive.
    fn match_recv(&mut self, n: usize) {
        let (Some(recv), Some(&send)) = (self.recvs.get(n), self.consuming.get(n)) else {
            return;
        };
        if let Effect::Send { bytes, .. } = &self.sends[send].effect {
            let fits = bytes.len().min(recv.len);
            let content = Content::Known(bytes[..fits].into());
            self.areas.inbox.begin(n, recv.at, content);
        }
    }

    /// The QP was destroyed: posted requests never complete.
    pub(super) fn abandon(&mut self) {
        self.next = self.sends.len();
        self.send_failed = true;
        self.pending_reads.clear();
    }

    pub(super) fn mark_deregistered(&mut self, area: AreaName) {
        self.deregistered[area as usize] = true;
    }

    pub(super) fn is_deregistered(&self, area: AreaName) -> bool {
        self.deregistered[area as usize]
    }

    /// The contents of the target that READs in flight may return are unknown from now on.
    pub(super) fn forget_target_of_readers(&mut self) {
        for reading in self.pending_reads.values_mut() {
            reading.target_frozen = true;
        }
    }

    pub(super) fn freeze(&mut self, area: AreaName) -> Verdict {
        let what = match area {
            AreaName::Out => &mut self.areas.out,
            AreaName::Target => {
                self.forget_target_of_readers();
                &mut self.areas.target
            }
            AreaName::Inbox => &mut self.areas.inbox,
        };
        what.freeze().map_err(about(format_args!("{area:?}")))
    }

    /// The peer has executed every request up to number `last`.
    pub(super) fn executed_through(&mut self, last: usize) -> Verdict {
        while self.executed <= last {
            let id = self.executed;
            let send = &self.sends[id];
            if send.must_not_execute() {
                return violated(format!("request {id} was executed, but must be refused"));
            }
            if let Effect::Write { at, bytes, .. } = &send.effect
                && !self.relocated.contains(&id)
            {
                let wrote = *at..at + bytes.len();
                self.remember_for_readers(id, &wrote);
                self.areas.target.settle(id);
                self.areas
                    .target
                    .check(wrote)
                    .map_err(about(format_args!("WRITE {id}")))?;
            }
            if let Some(key) = self.sends[id].invalidates {
                self.invalidated(key);
            }
            // A request waits for the READs before it only if it is fenced (IBTA 1.7,
            // 10.8.3.3).
            if self.sends[id].fence {
                self.answered = self.answered.max(id);
            }
            self.executed += 1;
        }
        Ok(())
    }

    /// Without acknowledgements: the immediate data of request `id` arrived, so all its bytes did.
    pub(super) fn write_arrived(&self, id: usize) -> Verdict {
        self.areas
            .target
            .check_done(id)
            .map_err(about(format_args!("WRITE {id}")))
    }

    /// Without acknowledgements, but also without loss: all WRITEs were executed.
    pub(super) fn settle_writes(&mut self) {
        let mut consuming = 0;
        for (id, send) in self.sends.iter().enumerate() {
            let arrived = !send.consumes_receive() || self.arrivals.has_arrived(consuming);
            consuming += usize::from(send.consumes_receive());
            // A WRITE whose immediate data found no receive may have been executed or not.
            if arrived && !send.fails {
                self.areas.target.settle(id);
            }
        }
    }

    /// Saves the bytes that request `id` overwrites, for the READs posted before it.
    fn remember_for_readers(&mut self, id: usize, wrote: &Range<usize>) {
        for (reader, reading) in self.pending_reads.range_mut(..id) {
            let Effect::Read { range, .. } = &self.sends[*reader].effect else {
                continue;
            };
            if range.start < wrote.end && wrote.start < range.end {
                let then = self.areas.target.image(range.clone());
                reading.before.push(then.to_vec());
            }
        }
    }

    /// WRITE `id` writes nothing more to the target, because its key was revoked. Its bytes may be
    /// overwritten by now, but READs may have seen them before. Returns whether the WRITE may have
    /// been executed.
    pub(super) fn end_write(&mut self, id: usize) -> bool {
        let target = &mut self.areas.target;
        for reading in self.pending_reads.values_mut() {
            let pieces = target.pending_ops().iter().filter(|open| open.id == id);
            reading.ended_writes.extend(pieces.cloned());
        }
        target.end(id)
    }

    /// Request `id` has succeeded.
    pub(super) fn succeed(&mut self, id: usize) -> Result<Option<Fetched>, Violation> {
        if self.reliable {
            self.executed_through(id)?;
            self.answered = self.answered.max(id + 1);
        }
        let send = &self.sends[id];
        // Without acknowledgements, the sender does not learn of the peer's refusal.
        if send.fails && (self.reliable || send.fails_locally) {
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
            _ => {}
        }
        Ok(None)
    }

    /// Whether the key of READ `id` may become invalid before the READ is done, because a later
    /// request revokes it without waiting.
    pub(super) fn may_lose_key(&self, id: usize) -> bool {
        let key = self.sends[id].key;
        let mut later = self.sends[id..].iter();
        later.any(|send| send.invalidates.is_some() && send.invalidates == key && !send.fence)
    }

    /// Request `id` failed. Its effects at the peer stay possible.
    pub(super) fn fail(&mut self, id: usize) {
        self.send_failed = true;
        self.pending_reads.remove(&id);
        // The request no longer writes to this memory.
        self.areas.out.settle(id);
    }

    /// Checks that each byte that the READ returned was in its range at some time.
    fn check_read(&mut self, id: usize, range: Range<usize>, to: usize) -> Verdict {
        let Some(reading) = self.pending_reads.remove(&id) else {
            return Ok(());
        };
        let target = &self.areas.target;
        let landed = self.areas.out.actual(to..to + range.len());
        let unknowable = reading.target_frozen || target.is_frozen() || self.areas.out.is_frozen();
        if unknowable || landed == target.image(range.clone()) {
            return Ok(());
        }
        // Requests after a fence can't have been executed before the READ was done.
        let fence = (id + 1..self.sends.len()).find(|later| self.sends[*later].fence);
        let fence = fence.unwrap_or(usize::MAX);
        for (offset, byte) in landed.into_iter().enumerate() {
            let at = range.start + offset;
            let then = reading.before.iter().any(|before| before[offset] == byte);
            let by_write = |open: &PendingOp| open.id < fence && open.may_have_written(at, byte);
            let now = target.image(at..at + 1) == [byte];
            let mut writes = target.pending_ops().iter().chain(&reading.ended_writes);
            if !now && !then && !writes.any(by_write) {
                return violated(format!(
                    "READ {id} returned {byte:#04x} for byte {at}, which was never there"
                ));
            }
        }
        Ok(())
    }
}

/// The messages on a flow that takes its receives from a pool.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The number of arrivals of each consuming request.
    pub(super) counts: Vec<u8>,
    /// The requests that must arrive.
    pub(super) due: Vec<bool>,
    /// One past the newest that has arrived.
    pub(super) resolved: usize,
    /// The last completed receive of each pool.
    pub(super) last: BTreeMap<usize, u64>,
}

impl Arrivals {
    pub(super) fn posted(&mut self, due: bool) {
        self.counts.push(0);
        self.due.push(due);
    }

    pub(super) fn record(&mut self, n: usize) {
        self.counts[n] += 1;
        self.resolved = self.resolved.max(n + 1);
    }

    /// The first request that must have arrived but has not.
    pub(super) fn missing(&self) -> Option<usize> {
        (0..self.due.len()).find(|n| self.due[*n] && self.counts[*n] == 0)
    }

    pub(super) fn has_arrived(&self, n: usize) -> bool {
        self.counts[n] > 0
    }
}

/// The completion of a SEND whose key can't be invalidated: the responder does not answer it (IBTA
/// 1.7, 9.9.6.3, class J).
pub const INVALIDATION_REFUSED: &[WcStatus] = &[WcStatus::RetryExceeded];

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// A request that binds the key is posted and has not completed.
    Binding,
    /// The key grants access.
    Valid,
    /// A posted request of the key's user invalidates the key. Requests posted before it may still
    /// use the key.
    InvalidationPosted,
    /// The owner of the key has posted a request that revokes it.
    Revoking,
    /// The key no longer grants access.
    Revoked,
}

/// The keys of one flow's target.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pub(super) states: BTreeMap<u32, KeyState>,
    /// Requests that raced with the binding or revocation of their key: both results are right.
    pub(super) uncertain: BTreeSet<usize>,
    /// Whether a window was freed, so that requests about the window may fail.
    pub(super) window_freed: bool,
}

impl Keys {
    /// The state of a key. Keys that were never mentioned belong to regions.
    pub(super) fn state(&self, key: u32) -> KeyState {
        self.states.get(&key).copied().unwrap_or(KeyState::Valid)
    }

    pub(super) fn set(&mut self, key: u32, state: KeyState) {
        self.states.insert(key, state);
    }
}
