//! Sends the replies in the order of their PSNs, when the port has room.
//!
//! Acknowledgements coalesce: the responder sends one for all requests executed so far, after the
//! responses of READs and atomics with lower PSNs. It sends none if such a response with a higher
//! PSN follows, since a response acknowledges what precedes it (IBTA 1.7, 9.7.5.1.2).

use super::reply_queue::{Nak, NakKind, Reply};
use super::{Refusal, Responder, cause};
use crate::counters::{DropReason, Stat};
use crate::kind::QpState;
use crate::memory::{Access, AccessError, PdId};
use crate::qp::emit::{EmitError, Run, count_packets, emit, write_run};
use crate::qp::{Core, Cx, QpFailure, Turn};
use crate::seq::Seq;
use crate::transmit::Transmit;
use roce_wire::icrc::Unsealed;
use roce_wire::{
    Aeth, AtomicAckEth, Bth, Credits, ExtHeaders, NakCode, Opcode, PacketRepr, Reth, Syndrome,
};

impl Responder {
    /// Whether a reply waits to be sent.
    pub(crate) fn wants_to_send(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The number of replies before the first READ response, if there is one.
    pub(crate) fn replies_before_data(&self) -> Option<usize> {
        let mut queue = self.replies.queue.iter();
        queue.position(|pending| matches!(pending.reply, Reply::Read { .. }))
    }

    /// Whether the next reply is a READ response.
    pub(crate) fn has_data_to_send(&self) -> bool {
        let front = self.replies.queue.front();
        front.is_some_and(|pending| matches!(pending.reply, Reply::Read { .. }))
    }

    /// Whether a NAK waits.
    pub(crate) fn has_nak_to_send(&self) -> bool {
        self.replies.nak.is_some()
    }

    /// Whether the only reply that waits is an acknowledgement.
    pub(crate) fn has_only_ack_to_send(&self) -> bool {
        self.replies.ack && self.replies.queue.is_empty() && self.replies.nak.is_none()
    }

    /// Sends up to `budget` packets of replies.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        if self.replies.is_empty() {
            return Ok(Turn::Idle);
        }
        self.transmit_queued(cx, port, core, budget)
    }

    fn transmit_queued(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        budget: usize,
    ) -> Result<Turn, QpFailure> {
        let mut left = budget;
        while left > 0 {
            let sent = match self.replies.queue.front().map(|pending| pending.reply) {
                Some(Reply::Read {
                    at,
                    end,
                    pd,
                    reth,
                    offset,
                    msn: _,
                }) if offset > 0 && at.next() < end => {
                    let packets = (end - at - 1).min(left as u64);
                    self.send_middle_responses(cx, port, core, at, packets, (pd, reth), offset)
                }
                Some(Reply::Read {
                    at,
                    end,
                    pd,
                    reth,
                    offset,
                    msn,
                }) => self
                    .send_read_response(cx, port, core, (at, end), (pd, reth), offset, msn)
                    .map(|()| 1),
                Some(Reply::Atomic { at, original, msn }) => self
                    .send_atomic_ack(cx, port, core, at, original, msn)
                    .map(|()| 1),
                // rule: 9.7.5.2-refusal-behind
                None if self.replies.nak.is_some() => self.send_nak(cx, port, core).map(|()| 1),
                None if self.replies.ack => self.send_ack(cx, port, core).map(|()| 1),
                None => return Ok(Turn::Idle),
            };
            match sent {
                Ok(packets) => left -= packets,
                Err(EmitError::Full) => return Ok(Turn::PortFull),
                Err(EmitError::Access(_)) if self.drop_repeated() => {
                    cx.nic.counters.drop(DropReason::StaleDuplicate);
                    left -= 1;
                }
                Err(EmitError::Access(_)) => {
                    left -= 1;
                    self.name_denied_reply(cx, core);
                    self.refuse_reply();
                    if core.state != QpState::Err {
                        return Err(QpFailure::AccessViolation);
                    }
                }
            }
        }
        Ok(if self.replies.is_empty() {
            Turn::Idle
        } else {
            Turn::More
        })
    }

    /// Drops the front reply, whose memory can't be read any more, if a complete reply to the
    /// request was sent before. After the first reply, the peer may have invalidated the key.
    /// Returns whether it dropped the reply.
    // rule: 9.7.5.1.3-duplicate-read-checked
    fn drop_repeated(&mut self) -> bool {
        let repeated = self
            .replies
            .queue
            .front()
            .is_some_and(|pending| !pending.unanswered);
        if repeated {
            self.replies.queue.pop_front();
        }
        repeated
    }

    /// Names the READ whose memory can't be read any more.
    #[cold]
    fn name_denied_reply(&self, cx: &mut Cx<'_>, core: &Core) {
        let first = self.replies.queue.front();
        let Some(Reply::Read { pd, reth, .. }) = first.map(|pending| pending.reply) else {
            return;
        };
        let access = (reth.rkey, reth.va, u64::from(reth.dma_len));
        let rights = Access::REMOTE_READ;
        let error = cx
            .nic
            .memory
            .remote(pd, core.qpn, reth.rkey, reth.va, access.2, rights)
            .err();
        let error = error.unwrap_or(AccessError::Fault);
        let opcode = core.kind.opcode(Opcode::RC_READ_REQUEST);
        cause::name_denied(cx, opcode, access, rights, error);
    }

    /// Refuses the rest of a READ response, whose memory can't be read any more.
    // rule: 9.9.3-region-goes
    fn refuse_reply(&mut self) {
        if let Some(pending) = self.replies.queue.pop_front() {
            self.replies
                .nak(pending.reply.first(), Refusal::AccessError);
        }
        self.replies.queue.clear();
    }

    /// Sends the next packet of a READ response.
    #[expect(clippy::too_many_arguments, reason = "the fields of one reply")]
    fn send_read_response(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        (at, end): (Seq, Seq),
        (pd, reth): (PdId, Reth),
        offset: u32,
        msn: u32,
    ) -> Result<(), EmitError> {
        let mtu = core.config.mtu();
        let rest = reth.dma_len - offset;
        // rule: 9.4.4-read-response-full
        let payload = usize::try_from(rest).unwrap_or(mtu).min(mtu);
        let ends = at.next() == end;
        // rule: 9.4.4-read-response-opcodes
        let opcode = match (offset == 0, ends) {
            (true, true) => Opcode::RC_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_READ_RESPONSE_FIRST,
            (false, true) => Opcode::RC_READ_RESPONSE_LAST,
            (false, false) => Opcode::RC_READ_RESPONSE_MIDDLE,
        };
        let ext = ExtHeaders {
            aeth: Some(self.aeth_ack(msn)),
            ..ExtHeaders::default()
        };
        let va = reth.va.wrapping_add(offset.into());
        self.send(cx, port, core, opcode, at, ext, payload, |cx, packet| {
            let len = packet.payload_len() as u64;
            if len == 0 {
                return Ok(());
            }
            let rights = Access::REMOTE_READ;
            cx.nic
                .memory
                .remote(pd, core.qpn, reth.rkey, va, len, rights)?
                // rule: 9.5-read-sees-writes
                .read_into(packet)
        })?;
        match self.replies.front_mut() {
            Some(Reply::Read { at, offset, .. }) if !ends => {
                // rule: 9.7.5.1.1-response-psn
                *at = at.next();
                *offset += u32::try_from(payload).unwrap_or(rest);
                cx.observe.middle();
            }
            _ => drop(self.replies.queue.pop_front()),
        }
        Ok(())
    }

    /// Sends responses in the middle of a READ, from `at` on: at most `max`, and as many as the port
    /// has room for in one datagram. Returns their number.
    #[expect(clippy::too_many_arguments, reason = "the fields of one reply")]
    fn send_middle_responses(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        at: Seq,
        max: u64,
        (pd, reth): (PdId, Reth),
        offset: u32,
    ) -> Result<usize, EmitError> {
        let mtu = core.config.mtu();
        let va = reth.va.wrapping_add(offset.into());
        let (len, rights) = (max * mtu as u64, Access::REMOTE_READ);
        let mut source = cx
            .nic
            .memory
            .remote(pd, core.qpn, reth.rkey, va, len, rights)
            .map_err(EmitError::Access)?;
        let run = Run {
            path: core.config.path.as_ref().ok_or(EmitError::Full)?,
            from_qp: core.qpn,
            sequenced: None,
            payload_len: mtu,
            count: usize::try_from(max).unwrap_or(usize::MAX),
        };
        let mut repr = PacketRepr {
            bth: bth(core, Opcode::RC_READ_RESPONSE_MIDDLE, at),
            ext: ExtHeaders::default(),
        };
        // rule: 9.5-read-sees-writes
        let fill = |packet: &mut Unsealed<'_>| source.take_front(mtu).read_into(packet);
        // rule: 9.7.5.1.1-response-psn
        let advance = |repr: &mut PacketRepr| repr.bth.psn = repr.bth.psn.next();
        let (packets, written) = write_run(port, &run, &mut repr, fill, advance)?;
        count_packets(&mut cx.nic.counters, written, packets, mtu);
        if let Some(Reply::Read { at, offset, .. }) = self.replies.front_mut() {
            *at = *at + packets as u64;
            *offset += (packets * mtu) as u32;
        }
        cx.observe
            .sent_middle(repr.bth.opcode, at.wire(), packets as u64);
        Ok(packets)
    }

    fn send_atomic_ack(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        at: Seq,
        original: u64,
        msn: u32,
    ) -> Result<(), EmitError> {
        let ext = ExtHeaders {
            aeth: Some(self.aeth_ack(msn)),
            // rule: 9.4.5-original
            atomic_ack: Some(AtomicAckEth { original }),
            ..ExtHeaders::default()
        };
        let opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;
        self.send(cx, port, core, opcode, at, ext, 0, |_, _| Ok(()))?;
        self.replies.queue.pop_front();
        Ok(())
    }

    /// Acknowledges everything executed so far, up to the newest SEND or WRITE. READs and atomics
    /// are acknowledged only by their own responses. If such a response were lost and a plain
    /// acknowledgement carried its PSN, peers like Soft-RoCE would take the request for completed
    /// without its data.
    fn send_ack(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
    ) -> Result<(), EmitError> {
        // rule: 9.7.5.1.2-fetch-not-acked
        let (end, fetches) = self.resources.run_before(self.epsn);
        let aeth = self.aeth_ack(self.msn.wrapping_sub(fetches) & 0xff_ffff);
        // rule: 9.7.5.1.1-ack-psn
        self.send_aeth(cx, port, core, end.prev(), aeth)?;
        cx.nic.counters.count(Stat::AcksSent);
        self.replies.ack = false;
        self.peer_out_of_credits = self.credits().count() == Some(0);
        Ok(())
    }

    fn send_nak(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
    ) -> Result<(), EmitError> {
        let Some(Nak { at, kind }) = self.replies.nak else {
            return Ok(());
        };
        let (syndrome, stat) = match kind {
            NakKind::Sequence => (
                // rule: 9.7.5.2-sequence-nak
                Syndrome::Nak(NakCode::PsnSequenceError),
                Stat::SequenceNaksSent,
            ),
            NakKind::NotReady => (
                // rule: 9.7.5.2.8-rnr-nak
                Syndrome::RnrNak(core.config.min_rnr_timer),
                Stat::RnrNaksSent,
            ),
            NakKind::Refusal(refusal) => (Syndrome::Nak(refusal.code()), Stat::FatalNaksSent),
        };
        self.send_aeth(
            cx,
            port,
            core,
            at,
            Aeth {
                syndrome,
                msn: self.msn,
            },
        )?;
        cx.nic.counters.count(stat);
        cx.observe.syndrome(syndrome);
        self.peer_out_of_credits |= matches!(kind, NakKind::NotReady);
        // A NAK acknowledges everything before it.
        self.replies.nak = None;
        self.replies.ack = false;
        Ok(())
    }

    fn send_aeth(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        at: Seq,
        aeth: Aeth,
    ) -> Result<(), EmitError> {
        let ext = ExtHeaders {
            aeth: Some(aeth),
            ..ExtHeaders::default()
        };
        self.send(
            cx,
            port,
            core,
            Opcode::RC_ACKNOWLEDGE,
            at,
            ext,
            0,
            |_, _| Ok(()),
        )
    }

    #[expect(clippy::too_many_arguments, reason = "what a packet is made of")]
    fn send(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        opcode: Opcode,
        at: Seq,
        ext: ExtHeaders,
        payload: usize,
        fill: impl FnOnce(&Cx<'_>, &mut Unsealed<'_>) -> Result<(), crate::memory::AccessError>,
    ) -> Result<(), EmitError> {
        let bth = bth(core, opcode, at);
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let repr = PacketRepr { bth, ext };
        emit(cx, port, path, core.qpn, &repr, payload, fill)
    }

    fn aeth_ack(&self, msn: u32) -> Aeth {
        let credits: Credits = self.credits();
        Aeth {
            syndrome: Syndrome::Ack(credits),
            msn,
        }
    }
}

fn bth(core: &Core, opcode: Opcode, at: Seq) -> Bth {
    let mut bth = Bth::new(core.kind.opcode(opcode), core.config.dest_qpn, at.wire());
    // rule: 9.7.3-pkey
    bth.pkey = core.config.pkey;
    bth
}

impl Refusal {
    fn code(self) -> NakCode {
        match self {
            // rule: 9.7.5.2-invalid-nak
            Self::InvalidRequest => NakCode::InvalidRequest,
            // rule: 9.7.5.2-access-nak
            Self::AccessError => NakCode::RemoteAccessError,
            // rule: 9.7.5.2-operation-nak
            Self::OperationalError => NakCode::RemoteOperationalError,
        }
    }
}
