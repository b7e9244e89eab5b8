//! Sending: one packet after the other from the request that owns `nxt`.

use super::{Requester, SendWqe};
use crate::counters::Stat;
use crate::qp::emit::{EmitError, Outgoing, emit, emit_of};
use crate::qp::{Core, Cx, Fault, QpState, Turn, sgl};
use crate::seq::Seq;
use crate::transmit::Transmit;
use crate::wr::{RemoteAddr, SendFlags, SendOp, WcStatus};
use core::hint::cold_path;
use roce_wire::{AtomicEth, Bth, ExtHeaders, Ieth, ImmDt, Opcode, PacketRepr, Reth};

/// Of so many requests in a row that nobody waits for, one asks for an acknowledgement.
const MOST_SPARED: u64 = 16;

/// Why a packet of a SEND or WRITE is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// It is next.
    New,
    /// To find out whether there is credit.
    Probe,
    /// Without what follows it; see [`super::recovery`].
    Again,
}

/// Whether a packet asks for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    Yes,
    /// One behind it will.
    No,
    /// Perhaps nothing follows; see [`Requester::spares`].
    Spared,
}

/// What may be sent next.
enum Next {
    /// The packet of a SEND or WRITE at `nxt`.
    Data { probe: bool },
    /// A request for the responses `nxt ..= last` of a READ.
    Read { last: Seq, new: bool },
    /// An atomic, FLUSH or ATOMIC WRITE.
    Atomic { new: bool },
    /// Nothing, until an acknowledgement, a timer or the application changes that.
    Nothing,
}

impl Requester {
    /// Sends up to about `budget` packets.
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, Fault> {
        self.shared_end = self.max + cx.room / core.config.mtu() as u64;
        let mut left = budget;
        while left > 0 {
            left -= 1;
            self.last_of_turn = left == 0;
            if let Some(at) = self.recovery.due() {
                cold_path();
                match self.send_again(cx, port, core, at) {
                    Ok(()) => continue,
                    Err(EmitError::Full) => return Ok(Turn::PortFull),
                    Err(EmitError::Access(_)) if at > self.una => self.recovery.cancel(),
                    Err(EmitError::Access(_)) => {
                        // rule: 9.9.2-local-protection
                        return Err(Fault::Send(WcStatus::LocalProtectionError));
                    }
                }
            }
            let Some(wqe) = self.sq.get(self.cursor).copied() else {
                return Ok(Turn::Idle);
            };
            if wqe.op.is_local() {
                cold_path();
                if !self.do_locally(cx, core, &wqe)? {
                    return Ok(Turn::Idle);
                }
                continue;
            }
            let sent = match self.next(core, &wqe) {
                Next::Nothing => return Ok(Turn::Idle),
                // What is sent again is in flight already.
                _ if self.nxt >= self.max && self.nxt >= self.shared_end => {
                    cold_path();
                    cx.starved = true;
                    return Ok(Turn::Idle);
                }
                Next::Data { probe } => {
                    let why = if probe { Why::Probe } else { Why::New };
                    let mut sent = self.send_data(cx, port, core, &wqe, why);
                    if sent.is_ok() && wqe.packets > 2 && !probe {
                        // The last of the turn asks for an acknowledgement.
                        let most = left.saturating_sub(1);
                        sent = self
                            .send_middle(cx, port, core, &wqe, most as u64)
                            .map(|more| left -= more as usize);
                    }
                    sent
                }
                Next::Read { last, new } => self.send_read(cx, port, core, &wqe, last, new),
                Next::Atomic { new } => self.send_atomic(cx, port, core, &wqe, new),
            };
            match sent {
                Ok(()) => {}
                Err(EmitError::Full) => {
                    cold_path();
                    return Ok(Turn::PortFull);
                }
                // rule: 9.9.2-local-first
                // Requests before this one still complete first.
                Err(EmitError::Access(_)) => {
                    cold_path();
                    if self.cursor > 0 {
                        return Ok(Turn::Idle);
                    }
                    return Err(Fault::Send(WcStatus::LocalProtectionError));
                }
            }
        }
        Ok(Turn::More)
    }

    /// Sends the packet at `at` again, and nothing of what follows it.
    fn send_again(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        at: Seq,
    ) -> Result<(), EmitError> {
        let gap_end = self.recovery.gap_end();
        if let Some(end) = gap_end {
            // What needs no response is known to have arrived.
            let next = self.fetches.open_from(at).map_or(end, |open| open.min(end));
            if next > at {
                self.recovery.on_sent(next - at);
                return Ok(());
            }
        }
        let index = self.sq.partition_point(|wqe| wqe.end() <= at);
        let Some(wqe) = self.sq.get(index).copied() else {
            self.recovery.cancel();
            return Ok(());
        };
        let ahead = (self.nxt, self.cursor, self.unrequested);
        (self.nxt, self.cursor) = (at, index);
        let sent = match (wqe.op, self.fetches.find(at)) {
            (SendOp::Read(_), Some(last)) => {
                let part = gap_end.map_or(last, |end| end.prev().min(last));
                if part < last {
                    self.fetches.split(at);
                }
                self.send_read(cx, port, core, &wqe, part, false)
            }
            (_, Some(_)) => self.send_atomic(cx, port, core, &wqe, false),
            _ => self.send_data(cx, port, core, &wqe, Why::Again),
        };
        let packets = self.nxt - at;
        (self.nxt, self.cursor, self.unrequested) = ahead;
        sent?;
        self.recovery.on_sent(packets);
        Ok(())
    }

    /// Decides about the packet at `nxt`, which `wqe` owns.
    fn next(&self, core: &Core, wqe: &SendWqe) -> Next {
        let begins = self.nxt == wqe.first;
        if self.retry.is_waiting_for_receiver() || self.recovery.is_learning() {
            cold_path();
            return Next::Nothing;
        }
        // SQD: what was begun goes on, nothing new is begun (IBTA 1.7, 10.3.1.4).
        // rule: 10.3.1-sqd-finishes
        if core.state == QpState::Sqd && begins && self.nxt >= self.max {
            cold_path();
            return Next::Nothing;
        }
        // A fence waits for what comes before it. When it is sent again, READs and
        // atomics behind it, or it itself, may be open: those don't count.
        // rule: 9.5-fence-again
        let earlier = || self.fetches.first_open().is_some_and(|at| at < self.nxt);
        // rule: 9.5-fence
        if begins && wqe.flags.contains(SendFlags::FENCE) {
            cold_path();
            if earlier() {
                return Next::Nothing;
            }
        }
        let window = self.window.packets();
        let in_flight = self.nxt - self.una;
        if in_flight >= window {
            return Next::Nothing;
        }
        match wqe.op {
            SendOp::Read(_) => {
                let (last, new) = match self.fetches.find(self.nxt) {
                    Some(last) => (last, false),
                    // rule: 9.7.3-max-rd-atomic
                    None if self.fetches.is_full() => return Next::Nothing,
                    None => (self.fetches.chunk(self.nxt, wqe.last(), window), true),
                };
                let fits = in_flight + (last.next() - self.nxt) <= window;
                if fits || in_flight == 0 {
                    Next::Read { last, new }
                } else {
                    Next::Nothing
                }
            }
            SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::Flush(_)
            | SendOp::AtomicWrite(_) => match self.fetches.find(self.nxt) {
                // rule: 9.7.3-atomic-again
                Some(_) => Next::Atomic { new: false },
                None if self.fetches.is_full() => Next::Nothing,
                None => Next::Atomic { new: true },
            },
            _ if !self.credit.admits(wqe.op.consumes_receive(), wqe.receives) => {
                // Without credit, one packet may find out whether there is some now;
                // once it is acknowledged, the message goes on (IBTA 1.7, 9.7.7.2.5),
                // as one does that was begun while there was credit.
                // rule: 9.7.7.2.5-probe
                if begins && in_flight == 0 {
                    Next::Data { probe: true }
                } else if begins || self.credit.is_probing(wqe.first, self.una) {
                    Next::Nothing
                } else {
                    Next::Data { probe: false }
                }
            }
            _ => Next::Data { probe: false },
        }
    }

    /// Sends the packet of a SEND or WRITE at `nxt`.
    fn send_data(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        why: Why,
    ) -> Result<(), EmitError> {
        let mtu = core.config.mtu();
        let index = self.nxt - wqe.first;
        let offset = index * mtu as u64;
        let rest = u64::from(wqe.len) - offset;
        // rule: 9.7.3-full-packets
        let payload = usize::try_from(rest).unwrap_or(mtu).min(mtu);
        let (is_first, is_last) = (index == 0, index + 1 == wqe.packets);

        let mut bth = self.bth(core, data_opcode(&wqe.op, is_first, is_last));
        // rule: 9.7.3-solicited-last
        bth.solicited =
            is_last && wqe.flags.contains(SendFlags::SOLICITED) && wqe.op.consumes_receive();
        // rule: 9.7.3-ask-at-end
        let spared = is_last && why == Why::New && self.spares(cx, core, wqe);
        bth.ack_req =
            is_last && !spared || why != Why::New || self.last_of_turn || self.quiet() == 0;
        let ext = data_headers(wqe, is_first);
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let source = self.sq.source(self.cursor);
        let repr = PacketRepr { bth, ext };
        // Then it needn't wait for what is to be done after it was sent.
        let ends = cx.alone && why == Why::New && is_last && self.cursor + 1 == self.sq.len();
        let packet = Outgoing {
            path,
            from_qp: core.qpn,
            position: self.nxt.position(),
            repr: &repr,
            payload_len: payload,
            is_last: ends,
        };
        let kept = emit_of(cx, port, &packet, |cx, packet| {
            sgl::fetch(cx.memory, core.pd, source, offset, packet)
        })?;
        self.held.note(kept, self.nxt);
        if is_first && why != Why::Again {
            self.credit.note_begin(self.nxt, why == Why::Probe);
        }
        let asks = match (bth.ack_req, spared) {
            (true, _) => Asks::Yes,
            (false, true) => Asks::Spared,
            (false, false) => Asks::No,
        };
        self.sent(cx, 1, asks, bth.ack_req);
        Ok(())
    }

    /// Asks for the responses `nxt ..= last` of a READ. A long READ is asked for in
    /// pieces, so that the window bounds what comes back.
    fn send_read(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        last: Seq,
        new: bool,
    ) -> Result<(), EmitError> {
        let SendOp::Read(remote) = wqe.op else {
            return Ok(());
        };
        let mtu = core.config.mtu() as u64;
        let packets = last.next() - self.nxt;
        let offset = (self.nxt - wqe.first) * mtu;
        let bytes = (u64::from(wqe.len) - offset).min(packets * mtu);
        let reth = Reth {
            // rule: 9.7.3-read-again
            va: remote.addr.wrapping_add(offset),
            rkey: remote.rkey,
            dma_len: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        let ext = ExtHeaders {
            xrceth: wqe.xrceth(),
            reth: Some(reth),
            ..ExtHeaders::default()
        };
        self.send_request(cx, port, core, Opcode::RC_READ_REQUEST, ext)?;
        if new {
            self.fetches.push(self.nxt, last);
        }
        // Responses behind others say nothing of the round trip.
        let alone = self.una == self.nxt;
        self.sent(cx, packets, Asks::Yes, alone);
        Ok(())
    }

    /// Sends an atomic request, a FLUSH or an ATOMIC WRITE.
    fn send_atomic(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        new: bool,
    ) -> Result<(), EmitError> {
        if wqe.op.is_placement() {
            return self.send_placement(cx, port, core, wqe, new);
        }
        let (opcode, remote, swap_or_add, compare) = match wqe.op {
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } => (Opcode::RC_COMPARE_SWAP, remote, swap, compare),
            SendOp::FetchAdd { remote, add } => (Opcode::RC_FETCH_ADD, remote, add, 0),
            _ => return Ok(()),
        };
        let RemoteAddr { addr: va, rkey } = remote;
        let atomic = AtomicEth {
            va,
            rkey,
            swap_or_add,
            compare,
        };
        let ext = ExtHeaders {
            xrceth: wqe.xrceth(),
            atomic: Some(atomic),
            ..ExtHeaders::default()
        };
        self.send_request(cx, port, core, opcode, ext)?;
        if new {
            self.fetches.push(self.nxt, self.nxt);
        }
        self.sent(cx, 1, Asks::Yes, true);
        Ok(())
    }

    /// A request without payload, which asks for its response by what it is.
    fn send_request(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        opcode: Opcode,
        ext: ExtHeaders,
    ) -> Result<(), EmitError> {
        let mut bth = self.bth(core, opcode);
        bth.ack_req = true;
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let repr = PacketRepr { bth, ext };
        emit(cx, port, path, core.qpn, &repr, 0, |_, _| Ok(()))
    }

    pub(super) fn bth(&self, core: &Core, opcode: Opcode) -> Bth {
        // rule: 9.7.3-dest-qpn
        let mut bth = Bth::new(
            core.kind.opcode(opcode),
            core.config.dest_qpn,
            self.nxt.wire(),
        );
        // rule: 9.7.3-pkey
        bth.pkey = core.config.pkey;
        bth
    }

    /// Whether the only packet of `wqe` may go without asking for an acknowledgement: a small
    /// WRITE of which nobody wants to know when it completes. The peer answers one in a few
    /// of them, as long as they come in quick succession; what is left unanswered when they
    /// cease is asked after by [`Requester::ask_at_last`]. So who answers a WRITE by a WRITE
    /// sends one packet instead of two.
    fn spares(&self, cx: &Cx<'_>, core: &Core, wqe: &SendWqe) -> bool {
        let unwatched = matches!(wqe.op, SendOp::Write(_)) && wqe.packets == 1;
        let few = MOST_SPARED.min(self.sq.limits().depth as u64 / 4);
        unwatched
            && !wqe.flags.contains(SendFlags::SIGNALED)
            && self.nxt == self.max
            && self.unrequested + 1 < few
            && core.state == QpState::Rts
            && self.clock.spares(cx.now, core.config.ack_timeout())
    }

    /// Takes note that `packets` PSNs from `nxt` on have been sent; whether that asked
    /// for an answer, and whether the answer tells the round trip.
    pub(super) fn sent(&mut self, cx: &mut Cx<'_>, packets: u64, asks: Asks, timed: bool) {
        let asked = asks == Asks::Yes;
        if self.nxt < self.max {
            cold_path();
            cx.counters.count(Stat::Retransmitted);
        } else if asked {
            self.clock.trips.note(cx.now, self.nxt.next());
            if timed {
                self.clock.time(cx.now, self.nxt.next());
            }
        }
        self.unrequested = if asked { 0 } else { self.unrequested + packets };
        // rule: 9.7.3.1-psn-each
        self.nxt = self.nxt + packets;
        self.max = self.max.max(self.nxt);
        if self
            .sq
            .get(self.cursor)
            .is_some_and(|wqe| wqe.end() <= self.nxt)
        {
            // rule: 10.8.2-order
            self.cursor += 1;
        }
        self.retry.on_sent(cx.now);
        match asks {
            Asks::Spared => self.clock.on_spared(cx.now),
            Asks::Yes | Asks::No => self.clock.on_sent(cx.now, self.max),
        }
    }
}

/// The opcode of a packet of a SEND or WRITE, by its place in the message.
// rule: 9.7.3-segments
pub(super) fn data_opcode(op: &SendOp, is_first: bool, is_last: bool) -> Opcode {
    let send = matches!(
        op,
        SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_)
    );
    match (is_first, is_last, op) {
        (true, false, _) if send => Opcode::RC_SEND_FIRST,
        (true, false, _) => Opcode::RC_WRITE_FIRST,
        (false, false, _) if send => Opcode::RC_SEND_MIDDLE,
        (false, false, _) => Opcode::RC_WRITE_MIDDLE,
        (true, true, SendOp::SendImm(_)) => Opcode::RC_SEND_ONLY_WITH_IMMEDIATE,
        (true, true, SendOp::SendInvalidate(_)) => Opcode::RC_SEND_ONLY_WITH_INVALIDATE,
        (true, true, SendOp::WriteImm(..)) => Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE,
        (true, true, _) if send => Opcode::RC_SEND_ONLY,
        (true, true, _) => Opcode::RC_WRITE_ONLY,
        (false, true, SendOp::SendImm(_)) => Opcode::RC_SEND_LAST_WITH_IMMEDIATE,
        (false, true, SendOp::SendInvalidate(_)) => Opcode::RC_SEND_LAST_WITH_INVALIDATE,
        (false, true, SendOp::WriteImm(..)) => Opcode::RC_WRITE_LAST_WITH_IMMEDIATE,
        (false, true, _) if send => Opcode::RC_SEND_LAST,
        (false, true, _) => Opcode::RC_WRITE_LAST,
    }
}

/// The headers that go with it.
fn data_headers(wqe: &SendWqe, is_first: bool) -> ExtHeaders {
    let mut ext = ExtHeaders {
        xrceth: wqe.xrceth(),
        ..ExtHeaders::default()
    };
    if let SendOp::Write(remote) | SendOp::WriteImm(remote, _) = wqe.op
        && is_first
    {
        ext.reth = Some(Reth {
            va: remote.addr,
            rkey: remote.rkey,
            // rule: 9.7.3-reth-first
            dma_len: wqe.len,
        });
    }
    match wqe.op {
        // Only opcodes of last packets have these headers: from others they are left out.
        // rule: 9.7.3-suffix-last
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => ext.imm = Some(ImmDt(imm)),
        SendOp::SendInvalidate(rkey) => ext.ieth = Some(Ieth(rkey)),
        _ => {}
    }
    ext
}
