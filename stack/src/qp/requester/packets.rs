//! The packets of requests: builds and sends the packet at one position of the stream. Nothing here
//! changes the requester's position.

use super::{Requester, SendWqe};
use crate::kind::{QpKind, QpState};
use crate::qp::emit::{EmitError, Outgoing, emit, emit_packet};
use crate::qp::{Core, Cx, sgl};
use crate::seq::Seq;
use crate::transmit::Transmit;
use crate::wr::{RemoteAddr, SendFlags, SendOp};
use roce_wire::{AtomicEth, Bth, ExtHeaders, Ieth, ImmDt, Opcode, PacketRepr, Reth};

/// The longest WRITE that is sent as a train. The datagrams of a longer one are nearly full anyway.
const LONGEST_TRAIN: u32 = 256 << 10;

/// Of this many unsignaled requests in a row, at least one asks for an acknowledgement.
const MAX_DEFERRED: u64 = 16;

/// Why a packet of a SEND or WRITE is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It is sent in order, at `nxt`.
    InOrder,
    /// It probes for credit.
    Probe,
    /// It is retransmitted without the packets behind it; see [`super::recovery`].
    Selective,
}

/// Whether a packet asks for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckReq {
    Yes,
    /// A later packet will ask.
    No,
    /// It need not ask, although perhaps no later packet asks; see
    /// [`Requester::may_defer_ack_req`].
    Deferred,
}

/// A position in the stream of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendCursor {
    /// The PSN there.
    pub(super) at: Seq,
    /// The index in the send queue of the request that owns it.
    pub(super) index: usize,
}

/// The result of sending a packet at a position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The number of PSNs: for a READ, those of the responses.
    pub(super) packets: u64,
    pub(super) ack_req: AckReq,
    /// Whether its response measures the round trip.
    pub(super) timed: bool,
    /// Whether the port keeps its memory.
    pub(super) kept: bool,
}

impl Sent {
    /// The result for a request that has a response of its own.
    pub(super) fn request(packets: u64) -> Self {
        Self {
            packets,
            ack_req: AckReq::Yes,
            timed: true,
            kept: false,
        }
    }
}

impl Requester {
    /// Sends the packet of a SEND or WRITE at `cursor`.
    pub(super) fn send_data(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        cursor: SendCursor,
        why: Why,
    ) -> Result<Sent, EmitError> {
        let mtu = core.config.mtu();
        let index = cursor.at - wqe.first;
        let offset = index * mtu as u64;
        let rest = u64::from(wqe.request.len) - offset;
        // rule: 9.7.3-full-packets
        let payload = usize::try_from(rest).unwrap_or(mtu).min(mtu);
        let is_last = index + 1 == wqe.packets;

        let opcode = data_opcode(wqe, index == 0, is_last);
        let mut bth = bth(core, opcode, cursor.at);
        // rule: 9.7.3-solicited-last
        bth.solicited = is_last
            && wqe.request.flags.contains(SendFlags::SOLICITED)
            && wqe.request.op.consumes_receive();
        // rule: 9.7.3-ask-at-end
        let deferred = is_last && why == Why::InOrder && self.may_defer_ack_req(cx, core, wqe);
        bth.ack_req = is_last && !deferred
            || why != Why::InOrder
            || self.last_of_turn
            || self.until_ack_req() == 0;
        let ext = data_headers(wqe, offset, payload);
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let source = self.sq.source(cursor.index);
        let repr = PacketRepr { bth, ext };
        // If no packet follows this one, it need not wait in the port until the end of the turn.
        let ends = cx.nothing_follows
            && why == Why::InOrder
            && is_last
            && cursor.index + 1 == self.sq.len();
        let packet = Outgoing {
            path,
            from_qp: core.qpn,
            sequenced: self.sequenced(cursor.at),
            repr: &repr,
            payload_len: payload,
            is_last: ends,
        };
        let kept = emit_packet(cx, port, &packet, |cx, packet| {
            sgl::fetch(&cx.nic.memory, core.pd, source, offset, packet)
        })?;
        let ack_req = match (bth.ack_req, deferred) {
            (true, _) => AckReq::Yes,
            (false, true) => AckReq::Deferred,
            (false, false) => AckReq::No,
        };
        Ok(Sent {
            packets: 1,
            ack_req,
            timed: bth.ack_req,
            kept,
        })
    }

    /// Whether a WRITE is sent as a train of *RDMA WRITE Only* packets, each with the address of its
    /// own bytes, instead of one message with a first, middle and last packets:
    /// [ADR 60](../../../../docs/adr/0060-trains-of-writes.md). The packets are of one length, so a
    /// port that joins packets of one length in a datagram can join them, and those of the next
    /// WRITE.
    ///
    /// The peer checks the range of each packet separately. A WRITE whose range it would refuse must not
    /// be placed in part, so a WRITE is a train only between addresses that earlier WRITEs have written. Immediate data
    /// comes with the length of the whole message, so those WRITEs are messages.
    pub(super) fn sends_as_train(&self, core: &Core, op: &SendOp, len: u32, packets: u64) -> bool {
        let SendOp::Write(remote) = *op else {
            return false;
        };
        core.kind == QpKind::Rc
            && packets > 1
            && len <= LONGEST_TRAIN
            && self.written.covers(remote, len)
    }

    /// Requests the responses from `cursor` to `last` of a READ. A long READ is requested in
    /// pieces, so that the window bounds the responses.
    pub(super) fn send_read(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        cursor: SendCursor,
        last: Seq,
    ) -> Result<Sent, EmitError> {
        let packets = last.next() - cursor.at;
        let SendOp::Read(remote) = wqe.request.op else {
            return Ok(Sent::request(packets));
        };
        let mtu = core.config.mtu() as u64;
        let offset = (cursor.at - wqe.first) * mtu;
        let bytes = (u64::from(wqe.request.len) - offset).min(packets * mtu);
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
        send_request(cx, port, core, Opcode::RC_READ_REQUEST, cursor, ext)?;
        Ok(Sent {
            // Timed only if nothing is outstanding before it: earlier responses would delay its
            // own.
            timed: self.una == cursor.at,
            ..Sent::request(packets)
        })
    }

    /// Sends an atomic request, a FLUSH or an ATOMIC WRITE.
    pub(super) fn send_atomic(
        &self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        cursor: SendCursor,
    ) -> Result<Sent, EmitError> {
        if wqe.request.op.is_placement() {
            return self.send_placement(cx, port, core, wqe, cursor);
        }
        let (opcode, remote, swap_or_add, compare) = match wqe.request.op {
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } => (Opcode::RC_COMPARE_SWAP, remote, swap, compare),
            SendOp::FetchAdd { remote, add } => (Opcode::RC_FETCH_ADD, remote, add, 0),
            _ => return Ok(Sent::request(1)),
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
        send_request(cx, port, core, opcode, cursor, ext)?;
        Ok(Sent::request(1))
    }

    /// Whether the only packet of `wqe` may defer its AckReq: `wqe` is a small, unsignaled WRITE, with or
    /// without immediate data. While such WRITEs follow each other quickly, only one in several
    /// requests an acknowledgement. When they stop, [`Requester::ask_after_deferral`] requests one for
    /// the rest. So if two programs answer each WRITE with a WRITE, most WRITEs cost no additional
    /// acknowledgement. Acknowledgements bring credits: those that are known must last until one comes.
    fn may_defer_ack_req(&self, cx: &Cx<'_>, core: &Core, wqe: &SendWqe) -> bool {
        let op = wqe.request.op;
        let is_small_write =
            matches!(op, SendOp::Write(_) | SendOp::WriteImm(..)) && wqe.packets == 1;
        let few = MAX_DEFERRED.min(self.sq.limits().depth as u64 / 4);
        is_small_write
            && self
                .credit
                .admits(op.consumes_receive(), wqe.receives + MAX_DEFERRED)
            && !wqe.request.flags.contains(SendFlags::SIGNALED)
            && self.nxt == self.max
            && self.since_ack_req + 1 < few
            && core.state == QpState::Rts
            && self
                .clock
                .may_defer_ack_req(cx.now, core.config.ack_timeout())
    }
}

/// Sends a request without payload, which has a response of its own.
fn send_request(
    cx: &mut Cx<'_>,
    port: &mut dyn Transmit,
    core: &Core,
    opcode: Opcode,
    cursor: SendCursor,
    ext: ExtHeaders,
) -> Result<(), EmitError> {
    let mut bth = bth(core, opcode, cursor.at);
    bth.ack_req = true;
    let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
    let repr = PacketRepr { bth, ext };
    emit(cx, port, path, core.qpn, &repr, 0, |_, _| Ok(()))
}

/// The BTH of the packet at `at`.
pub(super) fn bth(core: &Core, opcode: Opcode, at: Seq) -> Bth {
    // rule: 9.7.3-dest-qpn
    let mut bth = Bth::new(core.kind.opcode(opcode), core.config.dest_qpn, at.wire());
    // rule: 9.7.3-pkey
    bth.pkey = core.config.pkey;
    bth
}

/// The opcode of a packet of a SEND or WRITE, by its place in the message.
// rule: 9.7.3-segments
pub(super) fn data_opcode(wqe: &SendWqe, is_first: bool, is_last: bool) -> Opcode {
    if wqe.is_train {
        return Opcode::RC_WRITE_ONLY;
    }
    let op = &wqe.request.op;
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

/// The extended headers of the packet with the `payload` bytes from `offset` on.
pub(super) fn data_headers(wqe: &SendWqe, offset: u64, payload: usize) -> ExtHeaders {
    let mut ext = ExtHeaders {
        xrceth: wqe.xrceth(),
        ..ExtHeaders::default()
    };
    if let SendOp::Write(remote) | SendOp::WriteImm(remote, _) = wqe.request.op
        && (offset == 0 || wqe.is_train)
    {
        ext.reth = Some(Reth {
            va: remote.addr.wrapping_add(offset),
            rkey: remote.rkey,
            // rule: 9.7.3-reth-first
            dma_len: match wqe.is_train {
                true => u32::try_from(payload).unwrap_or(u32::MAX),
                false => wqe.request.len,
            },
        });
    }
    match wqe.request.op {
        // Only opcodes of last packets have these headers; other packets leave them out.
        // rule: 9.7.3-suffix-last
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => ext.imm = Some(ImmDt(imm)),
        SendOp::SendInvalidate(rkey) => ext.ieth = Some(Ieth(rkey)),
        _ => {}
    }
    ext
}
