//! Posts the requests of applications, and reports them to the oracle.

use super::end::{Binding, FlowMemory};
use super::memory::{Region, pattern};
use super::plan::{Kind, Op, RequestFault};
use super::request::Request;
use super::state::{Run, Token, WORDS};
use super::windows::RemoteLocation;
use crate::oracle::{
    Effect, INVALIDATION_REFUSED, PostedRecv, PostedSend, Verdict, WordOp, violated,
};
use roce_stack::{
    Destination, Duration, Flush, PostError, RecvRequest, RemoteAddr, SendFlags, SendOp,
    SendRequest, Target, WcOpcode, WcStatus,
};
use roce_wire::{FlushPlacement, FlushSelectivity};

/// The longest time that an application waits if its queue is full.
const RETRY: Duration = Duration::from_micros(50);

impl Run<'_> {
    /// Posts as many of an end's requests as possible.
    pub(super) fn post_requests(&mut self, pair: usize, side: usize) -> Verdict {
        let Some(state) = &self.pairs[pair] else {
            return Ok(());
        };
        let host = state.ends[side].host;
        if !state.ends[side].alive || self.paused[host.0] {
            return Ok(());
        }
        let received = match state.ends[side].pool {
            Some(_) => false,
            None => self.post_recvs(pair, side)?,
        };
        let sent = self.end(pair, side).ready && self.post_sends(pair, side)?;
        if received || sent {
            // Requests to a failed QP complete at once.
            self.drive(host);
        }
        Ok(())
    }

    fn post_sends(&mut self, pair: usize, side: usize) -> Result<bool, crate::oracle::Violation> {
        let plan = &self.plan.pairs[pair];
        let mut any = false;
        while let Some(op) = plan.ops[side].get(self.end(pair, side).next_op) {
            let now = self.fabric.now();
            if self.end(pair, side).send_at > now {
                let at = self.end(pair, side).send_at;
                self.schedule_post(pair, side, at);
                break;
            }
            match self.post_send(pair, side, op)? {
                Ok(()) => any = true,
                Err(()) => {
                    self.schedule_post(pair, side, now + RETRY);
                    break;
                }
            }
            let end = self.end_mut(pair, side);
            end.next_op += 1;
            if let Some(next) = plan.ops[side].get(end.next_op) {
                end.send_at = now + Duration::from_nanos(next.gap_ns);
            }
        }
        Ok(any)
    }

    /// Posts a request. The inner `Err(())` means that the queue is full.
    fn post_send(
        &mut self,
        pair: usize,
        side: usize,
        op: &Op,
    ) -> Result<Result<(), ()>, crate::oracle::Violation> {
        let plan = &self.plan.pairs[pair];
        let id = self.end(pair, side).next_op;
        let (host, qpn) = (self.end(pair, side).host, self.end(pair, side).qpn);
        let windows = self.windows(pair, 1 - side).to_vec();
        let (op, bound) = &self.resolve(pair, side, op);
        let request = match op.kind.is_local() {
            true => self.local_request(pair, side, op),
            false => self.request(pair, side, id, op, *bound),
        };
        let Some(state) = &self.pairs[pair] else {
            return Ok(Ok(()));
        };
        let memory = &state.memory[side];
        let at = memory.out_at[id];
        let elements = op.elements.min(plan.max_sge);
        let sges = match op.kind {
            Kind::Flush | Kind::Bind | Kind::LocalInv => Vec::new(),
            _ => memory.out.sges(at, op.len, elements, request.lkey),
        };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, op.signaled);
        flags.set(SendFlags::FENCE, op.fence);
        flags.set(SendFlags::SOLICITED, op.solicited);
        let sends = matches!(request.effect, Effect::Send { .. } | Effect::Write { .. });
        // Inline data is copied, and its key checked, at the time of posting.
        let key_is_valid = op.fault != Some(RequestFault::LocalKey)
            && memory.registered[0]
            && memory.out.is_mapped();
        let inline = op.inline && sends && key_is_valid && op.len <= plan.max_inline;
        flags.set(SendFlags::INLINE, inline);
        if let Effect::Send { bytes, .. } | Effect::Write { bytes, .. } = &request.effect {
            // The bytes must be in memory before the NIC may read them.
            self.oracle
                .write_out(pair, side, Region::buffer_offset(at), bytes);
        }
        let now = self.fabric.now();
        let named = self.named_srq(pair, op);
        let target = match (named, self.destination(pair, side, op)) {
            (Some((srq, _)), _) => srq.into(),
            (None, Some(to)) => to.into(),
            (None, None) => Target::Peer,
        };
        let posting = SendRequest::new(id as u64, request.op, &sges)
            .with_flags(flags)
            .to(target);
        match self.fabric.nic(host).post_send(now, qpn, &posting) {
            Ok(()) => {}
            Err(PostError::QueueFull { .. }) => {
                let outstanding = self.oracle.outstanding_sends(pair, side);
                if outstanding < plan.depth {
                    return violated(format!(
                        "pair {pair} side {side}: the send queue of {} is full with {outstanding}",
                        plan.depth
                    ));
                }
                // The request was not posted, so it binds no window.
                self.set_windows(pair, 1 - side, windows);
                return Ok(Err(()));
            }
            Err(error) => {
                return violated(format!("pair {pair} side {side}: {op:?} refused: {error}"));
            }
        }
        self.outcome.counts.sends += 1;
        let (statuses, fails_locally): (&'static [WcStatus], bool) = match op.fault {
            None => (&[], false),
            Some(_) if op.kind == Kind::Bind => (&[WcStatus::MemoryWindowBindError], true),
            Some(RequestFault::LocalKey) => (&[WcStatus::LocalProtectionError], true),
            Some(RequestFault::TooLong | RequestFault::Srq) => {
                (&[WcStatus::RemoteInvalidRequest], false)
            }
            // The sender gets no answer to a datagram.
            Some(RequestFault::QKey) => (&[], false),
            Some(_) if op.kind == Kind::SendInvalidate => (INVALIDATION_REFUSED, false),
            Some(_) => (&[WcStatus::RemoteAccessError], false),
        };
        let posted = PostedSend {
            effect: request.effect,
            lands_at: Region::buffer_offset(at),
            signaled: op.signaled || plan.signal_all,
            fence: op.fence,
            fails: op.fault.is_some(),
            fails_locally,
            denied: op.fault == Some(RequestFault::AccessRight),
            statuses,
            key: request.key,
            invalidates: request.invalidates,
            pool: named.map(|(_, pool)| pool),
            opcode: request.opcode,
            // These operations transfer no bytes.
            len: match op.kind {
                Kind::Flush | Kind::Bind | Kind::LocalInv => 0,
                _ => op.len as u32,
            },
        };
        self.oracle.posted_send(pair, side, posted);
        if inline {
            // The NIC has copied inline data, so the application may overwrite the memory.
            let overwritten = vec![0xee; op.len];
            self.oracle
                .write_out(pair, side, Region::buffer_offset(at), &overwritten);
        }
        Ok(Ok(()))
    }

    /// The request of an operation, for the NIC and for the oracle.
    fn request(
        &self,
        pair: usize,
        side: usize,
        id: usize,
        op: &Op,
        bound: Option<Binding>,
    ) -> Request {
        let salt = (pair as u64) << 40 | (side as u64) << 32 | id as u64;
        let imm = (salt as u32) ^ 0x5a5a_0000 ^ (pair as u32) << 20;
        let peer = self.plan.pairs[pair].hosts[1 - side];
        let Some(FlowMemory {
            out, target, grant, ..
        }) = self.pairs[pair].as_ref().map(|state| &state.memory[side])
        else {
            unreachable!("only connected pairs post");
        };
        let spoil = |mut remote: RemoteAddr| {
            if op.fault == Some(RequestFault::RemoteKey) {
                remote.rkey ^= 0x5555_5555;
            }
            remote
        };
        let RemoteLocation { remote, at } =
            self.remote_location(op, (target, grant.stale_iova), bound);
        let place = Region::buffer_offset(at);
        let (op_out, effect, opcode) = match op.kind {
            Kind::Send | Kind::SendImm => {
                let imm = (op.kind == Kind::SendImm).then_some(imm);
                let bytes = pattern(salt, op.len);
                let send = imm.map_or(SendOp::Send, SendOp::SendImm);
                (send, Effect::Send { bytes, imm }, WcOpcode::Send)
            }
            Kind::Write | Kind::WriteImm => {
                let imm = (op.kind == Kind::WriteImm).then_some(imm);
                let bytes = pattern(salt, op.len);
                let write = match imm {
                    Some(imm) => SendOp::WriteImm(remote, imm),
                    None => SendOp::Write(remote),
                };
                let effect = Effect::Write {
                    at: place,
                    bytes,
                    imm,
                };
                (write, effect, WcOpcode::RdmaWrite)
            }
            Kind::SendInvalidate => {
                let bytes = pattern(salt, op.len);
                let effect = Effect::Send { bytes, imm: None };
                (SendOp::SendInvalidate(remote.rkey), effect, WcOpcode::Send)
            }
            Kind::AtomicWrite => {
                let effect = Effect::Write {
                    at: place,
                    bytes: pattern(salt, 8),
                    imm: None,
                };
                (SendOp::AtomicWrite(remote), effect, WcOpcode::AtomicWrite)
            }
            Kind::Flush => {
                let flush = Flush {
                    remote,
                    len: op.len as u32,
                    placement: match op.fault {
                        Some(RequestFault::Persistence) => FlushPlacement::PERSISTENCE,
                        _ => FlushPlacement::GLOBAL_VISIBILITY,
                    },
                    selectivity: match op.elements {
                        1 if op.fault != Some(RequestFault::Bounds) => FlushSelectivity::Region,
                        _ => FlushSelectivity::Range,
                    },
                };
                (SendOp::Flush(flush), Effect::Flush, WcOpcode::Flush)
            }
            Kind::Read => {
                let effect = Effect::Read {
                    range: place..place + op.len,
                    to: Region::buffer_offset(self.out_at(pair, side, id)),
                };
                (SendOp::Read(remote), effect, WcOpcode::RdmaRead)
            }
            Kind::Increment | Kind::Swap => {
                let half = WORDS / 2;
                let swaps = op.kind == Kind::Swap;
                let word = op.at % half + if swaps { half } else { 0 };
                let words = &self.hosts[peer].region;
                let beyond = usize::from(op.fault == Some(RequestFault::Bounds)) * 8 * WORDS;
                let remote = spoil(words.remote(8 * word + beyond));
                let (send, op, opcode) = if swaps {
                    let (compare, swap) = (self.oracle.words[peer].guess(word), salt + 1);
                    let send = SendOp::CompareSwap {
                        remote,
                        compare,
                        swap,
                    };
                    let op = WordOp::Swap { compare, swap };
                    (send, op, WcOpcode::CompareSwap)
                } else {
                    let send = SendOp::FetchAdd { remote, add: 1 };
                    (send, WordOp::Increment, WcOpcode::FetchAdd)
                };
                let host = peer;
                (send, Effect::Word { host, word, op }, opcode)
            }
            Kind::Bind | Kind::LocalInv => unreachable!("{:?} is local", op.kind),
        };
        let uses_key = match op.kind {
            Kind::Write | Kind::WriteImm | Kind::Read => op.len > 0,
            Kind::AtomicWrite | Kind::Flush | Kind::SendInvalidate => true,
            _ => false,
        };
        Request {
            op: op_out,
            lkey: match op.fault {
                Some(RequestFault::LocalKey) => out.key ^ 0x5555_5555,
                _ => out.key,
            },
            effect,
            opcode,
            key: uses_key.then_some(remote.rkey),
            invalidates: (op.kind == Kind::SendInvalidate).then_some(remote.rkey),
        }
    }

    /// The destination of a datagram. The QPs of other services have a fixed destination.
    fn destination(&self, pair: usize, side: usize, op: &Op) -> Option<Destination> {
        let mut to = self.end(pair, side).to?;
        if op.fault == Some(RequestFault::QKey) {
            to.qkey.0 ^= 1;
        }
        Some(to)
    }

    fn post_recvs(&mut self, pair: usize, side: usize) -> Result<bool, crate::oracle::Violation> {
        let plan = &self.plan.pairs[pair];
        let mut any = false;
        loop {
            let Some(state) = &self.pairs[pair] else {
                return Ok(any);
            };
            let (end, memory) = (&state.ends[side], &state.memory[1 - side]);
            let n = end.next_recv;
            let ahead = self.oracle.outstanding_recvs(pair, side);
            let Some(&(at, len)) = memory.inbox_at.get(n) else {
                return Ok(any);
            };
            if ahead >= plan.recvs_ahead {
                return Ok(any);
            }
            let now = self.fabric.now();
            if end.recv_at > now {
                let at = end.recv_at;
                self.schedule_post(pair, side, at);
                return Ok(any);
            }
            let elements = (1 + n % 3).min(plan.max_sge);
            let sges = memory.inbox.sges(at, len, elements, memory.inbox.key);
            let (host, qpn) = (end.host, end.qpn);
            let wr = RecvRequest {
                wr_id: n as u64,
                sges: &sges,
            };
            if let Err(error) = self.fabric.nic(host).post_recv(now, qpn, &wr) {
                return violated(format!(
                    "pair {pair} side {side}: receive {n} refused with {ahead} posted: {error}"
                ));
            }
            any = true;
            self.outcome.counts.receives += 1;
            let posted = PostedRecv {
                at: Region::buffer_offset(at),
                len,
            };
            self.oracle.posted_recv(pair, side, posted);
            let end = self.end_mut(pair, side);
            end.next_recv += 1;
            end.recv_at = now + Duration::from_nanos(plan.recv_gap_ns);
        }
    }

    /// Schedules the next call that posts an end's requests, unless an earlier one is scheduled.
    fn schedule_post(&mut self, pair: usize, side: usize, at: roce_stack::Instant) {
        let end = self.end_mut(pair, side);
        if end.next_call.is_none_or(|called| at < called) {
            end.next_call = Some(at);
            self.call_at(at, Token::Post(2 * pair + side));
        }
    }
}
