//! The counters of a flow.

use roce_wire::{NakCode, Opcode, Operation, Suffix};

use crate::decode::cm;
use crate::decode::packet::{Icrc, RocePacket};

/// Kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode) enum Message {
    Send,
    SendImmediate,
    SendInvalidate,
    Write,
    WriteImmediate,
    ReadRequest,
    CompareSwap,
    FetchAdd,
    Flush,
    AtomicWrite,
    ReadResponse,
    Acknowledge,
    AtomicAcknowledge,
}

impl Message {
    /// Every kind, in numerical order.
    pub(in crate::decode) const ALL: [Message; 13] = [
        Message::Send,
        Message::SendImmediate,
        Message::SendInvalidate,
        Message::Write,
        Message::WriteImmediate,
        Message::ReadRequest,
        Message::CompareSwap,
        Message::FetchAdd,
        Message::Flush,
        Message::AtomicWrite,
        Message::ReadResponse,
        Message::Acknowledge,
        Message::AtomicAcknowledge,
    ];

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

    /// Its name in JSON.
    pub(in crate::decode) fn name(self) -> &'static str {
        match self {
            Message::Send => "send",
            Message::SendImmediate => "send_immediate",
            Message::SendInvalidate => "send_invalidate",
            Message::Write => "write",
            Message::WriteImmediate => "write_immediate",
            Message::ReadRequest => "read_request",
            Message::CompareSwap => "compare_swap",
            Message::FetchAdd => "fetch_add",
            Message::Flush => "flush",
            Message::AtomicWrite => "atomic_write",
            Message::ReadResponse => "read_response",
            Message::Acknowledge => "acknowledge",
            Message::AtomicAcknowledge => "atomic_acknowledge",
        }
    }

    /// Its name in the header of a table.
    pub(in crate::decode) fn title(self) -> &'static str {
        match self {
            Message::Send => "SEND",
            Message::SendImmediate => "SEND imm",
            Message::SendInvalidate => "SEND inv",
            Message::Write => "WRITE",
            Message::WriteImmediate => "WRITE imm",
            Message::ReadRequest => "READ",
            Message::CompareSwap => "CmpSwap",
            Message::FetchAdd => "FetchAdd",
            Message::Flush => "FLUSH",
            Message::AtomicWrite => "ATOMIC WRITE",
            Message::ReadResponse => "READ resp",
            Message::Acknowledge => "ACK",
            Message::AtomicAcknowledge => "ATOMIC ack",
        }
    }
}

/// The kinds of NAK other than RNR NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode) enum NakKind {
    PsnSequenceError,
    InvalidRequest,
    RemoteAccessError,
    RemoteOperationalError,
    InvalidRdRequest,
    Reserved,
}

impl NakKind {
    /// Every kind, in numerical order.
    pub(in crate::decode) const ALL: [NakKind; 6] = [
        NakKind::PsnSequenceError,
        NakKind::InvalidRequest,
        NakKind::RemoteAccessError,
        NakKind::RemoteOperationalError,
        NakKind::InvalidRdRequest,
        NakKind::Reserved,
    ];

    /// The kind of a NAK code.
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

    /// Its name in JSON.
    pub(in crate::decode) fn name(self) -> &'static str {
        match self {
            NakKind::PsnSequenceError => "psn_sequence_error",
            NakKind::InvalidRequest => "invalid_request",
            NakKind::RemoteAccessError => "remote_access_error",
            NakKind::RemoteOperationalError => "remote_operational_error",
            NakKind::InvalidRdRequest => "invalid_rd_request",
            NakKind::Reserved => "reserved",
        }
    }

    /// Its name in text.
    pub(in crate::decode) fn title(self) -> &'static str {
        match self {
            NakKind::PsnSequenceError => "PSN sequence error",
            NakKind::InvalidRequest => "invalid request",
            NakKind::RemoteAccessError => "remote access error",
            NakKind::RemoteOperationalError => "remote operational error",
            NakKind::InvalidRdRequest => "invalid RD request",
            NakKind::Reserved => "reserved code",
        }
    }
}

/// The counters of a flow. Those from `payload_bytes` on exclude packets whose ICRC is wrong or
/// that violate the rules of their opcode.
#[derive(Clone, Debug, Default)]
pub(in crate::decode) struct Counters {
    /// Transport packets.
    pub(in crate::decode) packets: u64,
    /// Bytes of the frames that carried them.
    pub(in crate::decode) wire_bytes: u64,
    /// Wrong ICRCs.
    pub(in crate::decode) icrc_bad: u64,
    /// Packets not captured completely, so that the ICRC could not be checked.
    pub(in crate::decode) cut: u64,
    /// Packets that violate the rules of their opcode.
    pub(in crate::decode) malformed: u64,
    /// Congestion notifications.
    pub(in crate::decode) cnps: u64,
    /// Packets that a switch marked as having experienced congestion.
    pub(in crate::decode) ecn_ce: u64,
    /// Bytes of payload, without retransmissions.
    pub(in crate::decode) payload_bytes: u64,
    /// Messages by kind: those whose last packet was seen.
    pub(in crate::decode) messages: [u64; Message::ALL.len()],
    /// CM messages by kind.
    pub(in crate::decode) cm_messages: [u64; cm::Kind::ALL.len()],
    /// NAKs by kind.
    pub(in crate::decode) naks: [u64; NakKind::ALL.len()],
    /// RNR NAKs.
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
