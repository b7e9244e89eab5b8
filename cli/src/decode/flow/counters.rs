//! The counters of a flow.

use roce_wire::{NakCode, Opcode, Operation, Suffix};

use crate::decode::cm;
use crate::decode::kinds::named_kinds;
use crate::decode::packet::{Icrc, RocePacket};

named_kinds! {
    /// Kinds of message.
    Message:
    Send "send" "SEND";
    SendImmediate "send_immediate" "SEND imm";
    SendInvalidate "send_invalidate" "SEND inv";
    Write "write" "WRITE";
    WriteImmediate "write_immediate" "WRITE imm";
    ReadRequest "read_request" "READ";
    CompareSwap "compare_swap" "CmpSwap";
    FetchAdd "fetch_add" "FetchAdd";
    Flush "flush" "FLUSH";
    AtomicWrite "atomic_write" "ATOMIC WRITE";
    ReadResponse "read_response" "READ resp";
    Acknowledge "acknowledge" "ACK";
    AtomicAcknowledge "atomic_acknowledge" "ATOMIC ack";
}

impl Message {
    /// The kind of message that a packet with this opcode is part of.
    pub(super) fn of(opcode: Opcode) -> Option<Message> {
        Some(match (opcode.operation(), opcode.suffix()) {
            (Operation::Send, Suffix::None) => Message::Send,
            (Operation::Send, Suffix::Immediate) => Message::SendImmediate,
            (Operation::Send, Suffix::Invalidate) => Message::SendInvalidate,
            (Operation::Write, Suffix::Immediate) => Message::WriteImmediate,
            (Operation::Write, _) => Message::Write,
            (Operation::ReadRequest, _) => Message::ReadRequest,
            (Operation::CompareSwap, _) => Message::CompareSwap,
            (Operation::FetchAdd, _) => Message::FetchAdd,
            (Operation::Flush, _) => Message::Flush,
            (Operation::AtomicWrite, _) => Message::AtomicWrite,
            (Operation::ReadResponse, _) => Message::ReadResponse,
            (Operation::Acknowledge, _) => Message::Acknowledge,
            (Operation::AtomicAcknowledge, _) => Message::AtomicAcknowledge,
            (Operation::Cnp, _) => return None,
        })
    }
}

named_kinds! {
    /// The kinds of NAK other than RNR NAK.
    NakKind:
    PsnSequenceError "psn_sequence_error" "PSN sequence error";
    InvalidRequest "invalid_request" "invalid request";
    RemoteAccessError "remote_access_error" "remote access error";
    RemoteOperationalError "remote_operational_error" "remote operational error";
    InvalidRdRequest "invalid_rd_request" "invalid RD request";
    Reserved "reserved" "reserved code";
}

impl NakKind {
    pub(in crate::decode) fn of(code: NakCode) -> NakKind {
        match code {
            NakCode::PsnSequenceError => NakKind::PsnSequenceError,
            NakCode::InvalidRequest => NakKind::InvalidRequest,
            NakCode::RemoteAccessError => NakKind::RemoteAccessError,
            NakCode::RemoteOperationalError => NakKind::RemoteOperationalError,
            NakCode::InvalidRdRequest => NakKind::InvalidRdRequest,
            NakCode::Reserved(_) => NakKind::Reserved,
        }
    }
}

/// The counters of a flow. Those from `payload_bytes` on exclude packets whose ICRC is wrong or
/// that violate the rules of their opcode.
#[derive(Clone, Debug, Default)]
pub(in crate::decode) struct Counters {
    pub(in crate::decode) packets: u64,
    /// Bytes of the frames that carried them.
    pub(in crate::decode) wire_bytes: u64,
    pub(in crate::decode) icrc_bad: u64,
    /// Packets not captured completely, so that the ICRC could not be checked.
    pub(in crate::decode) cut: u64,
    /// Packets that violate the rules of their opcode.
    pub(in crate::decode) malformed: u64,
    pub(in crate::decode) cnps: u64,
    /// Packets that a switch marked as having experienced congestion.
    pub(in crate::decode) ecn_ce: u64,
    /// Bytes of payload, without retransmissions.
    pub(in crate::decode) payload_bytes: u64,
    /// Messages by kind: those whose last packet was seen.
    pub(in crate::decode) messages: [u64; Message::NAMES.len()],
    pub(in crate::decode) cm_messages: [u64; cm::Kind::NAMES.len()],
    pub(in crate::decode) naks: [u64; NakKind::NAMES.len()],
    pub(in crate::decode) rnr_naks: u64,
    /// Packets that had been seen before.
    pub(in crate::decode) retransmitted: u64,
    /// Payload bytes of the retransmitted packets.
    pub(in crate::decode) retransmitted_bytes: u64,
    /// The number of gaps in the PSNs.
    pub(in crate::decode) gaps: u64,
    /// PSNs in gaps that were never filled.
    pub(in crate::decode) missing: u64,
    /// Jumps in the PSN too wide to be loss: the queue pair was connected again.
    pub(in crate::decode) restarts: u64,
}

/// The ECN bits of a packet that has experienced congestion (RFC 3168).
const ECN_CE: u8 = 0b11;

impl Counters {
    /// Counts what doesn't depend on earlier packets.
    pub(super) fn count(&mut self, packet: &RocePacket) {
        self.packets += 1;
        self.wire_bytes += packet.frame_len as u64;
        self.icrc_bad += u64::from(matches!(packet.icrc, Icrc::Bad(_)));
        self.cut += u64::from(packet.icrc == Icrc::Cut);
        self.malformed += u64::from(packet.error.is_some());
        self.ecn_ce += u64::from(packet.envelope.tos & ECN_CE == ECN_CE);
        let is_cnp = |bth: roce_wire::Bth| bth.opcode.operation() == Operation::Cnp;
        self.cnps += u64::from(packet.bth.is_some_and(is_cnp));
    }

    /// NAKs of all kinds except RNR.
    pub(in crate::decode) fn all_naks(&self) -> u64 {
        self.naks.iter().sum()
    }
}
