//! The messages that establish a connection (IBTA 1.7, 12.6).

use super::path::PathRecord;
use super::{Data, PrivateData, RejectReason, ServiceId, ServiceType, put, put_ids, put24};
use crate::header::{be16, be24, be32, be64};
use crate::{Layer, PKey, ParseError, PathMtu, Psn, QKey, Qpn};

/// Request for a connection (IBTA 1.7, 12.6.5).
///
/// Counts and timeouts have their values on the wire. A timeout t means 4.096 µs × 2^t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Req<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The service that the request is for.
    pub service: ServiceId,
    /// The GUID of the sender's channel adapter.
    pub ca_guid: u64,
    /// Not used by the supported kinds of connections.
    pub qkey: QKey,
    /// The sender's QP.
    pub qpn: Qpn,
    /// The number of READs and atomics that the sender accepts at a time.
    pub responder_resources: u8,
    /// The number of READs and atomics that the sender wants to have outstanding.
    pub initiator_depth: u8,
    /// The time that the recipient has for its reply, 5 bits.
    pub remote_response_timeout: u8,
    /// The kind of connection.
    pub service_type: ServiceType,
    /// Whether the sender's acknowledgements carry credits.
    pub flow_control: bool,
    /// The starting PSN of the recipient's send queue, which the sender expects first.
    pub psn: Psn,
    /// The time that the sender has to answer the REP, 5 bits.
    pub local_response_timeout: u8,
    /// The recipient's retry count, 3 bits.
    pub retry_count: u8,
    /// The partition.
    pub pkey: PKey,
    /// The path MTU.
    pub path_mtu: PathMtu,
    /// The recipient's RNR retry count, 3 bits; 7 for no limit.
    pub rnr_retry_count: u8,
    /// The maximum number of retries of communication management messages, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the sender's QP takes its receives from an SRQ.
    pub srq: bool,
    /// The path.
    pub path: PathRecord,
    /// Private data, preceded by that of Annex A11 if the service requires it.
    pub private: PrivateData<'a, 92>,
}

impl<'a> Req<'a> {
    // rule: 12.6.5-req
    pub(super) fn read(d: &'a Data) -> Result<Self, ParseError> {
        let wrong = |field, found: u8, expected| {
            ParseError::unsupported(Layer::Cm, field, found.into(), expected)
        };
        let kind = d[43] >> 1 & 0x3;
        let service_type = ServiceType::from_bits(kind, d[51] & 0x7)
            .ok_or_else(|| wrong("transport service type", kind, "RC, UC or XRC"))?;
        let code = d[50] >> 4;
        let path_mtu = PathMtu::from_code(code)
            .ok_or_else(|| wrong("path packet payload mtu", code, "1 to 5"))?;
        let mut path = [0; PathRecord::LEN];
        path.copy_from_slice(&d[52..52 + PathRecord::LEN]);
        Ok(Self {
            local_id: be32(d, 0),
            service: ServiceId(be64(d, 8)),
            ca_guid: be64(d, 16),
            qkey: QKey(be32(d, 28)),
            qpn: Qpn::from_bits(be24(d, 32)),
            responder_resources: d[35],
            initiator_depth: d[39],
            remote_response_timeout: d[43] >> 3,
            service_type,
            flow_control: d[43] & 1 != 0,
            psn: Psn::new(be24(d, 44)),
            local_response_timeout: d[47] >> 3,
            retry_count: d[47] & 0x7,
            pkey: PKey(be16(d, 48)),
            path_mtu,
            rnr_retry_count: d[50] & 0x7,
            max_cm_retries: d[51] >> 4,
            srq: d[51] & 0x08 != 0,
            path: PathRecord::read(&path),
            private: PrivateData::read(d, 140),
        })
    }

    pub(super) fn write(&self, d: &mut Data) {
        let (kind, extended) = self.service_type.bits();
        put(d, 0, self.local_id.to_be_bytes());
        put(d, 8, self.service.0.to_be_bytes());
        put(d, 16, self.ca_guid.to_be_bytes());
        put(d, 28, self.qkey.0.to_be_bytes());
        put24(d, 32, self.qpn.get());
        d[35] = self.responder_resources;
        d[39] = self.initiator_depth;
        d[43] = self.remote_response_timeout << 3 | kind << 1 | u8::from(self.flow_control);
        put24(d, 44, self.psn.get());
        d[47] = self.local_response_timeout << 3 | self.retry_count & 0x7;
        put(d, 48, self.pkey.0.to_be_bytes());
        d[50] = self.path_mtu.code() << 4 | self.rnr_retry_count & 0x7;
        d[51] = self.max_cm_retries << 4 | u8::from(self.srq) << 3 | extended;
        put(d, 52, self.path.to_bytes());
        self.private.write(d, 140);
    }
}

/// The message that an [`Mra`] acknowledges (IBTA 1.7, 12.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mraed {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// A LAP.
    Lap,
}

/// Message receipt acknowledged (IBTA 1.7, 12.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mra<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The recipient's communication ID.
    pub remote_id: u32,
    /// The acknowledged message.
    pub mraed: Mraed,
    /// The time that the sender needs, after this message, for its reply: 5 bits, 4.096 µs × 2^t.
    pub service_timeout: u8,
    /// Private data.
    pub private: PrivateData<'a, 222>,
}

impl<'a> Mra<'a> {
    // rule: 12.6.6-mra
    pub(super) fn read(d: &'a Data) -> Result<Self, ParseError> {
        let mraed = match d[8] >> 6 {
            0 => Mraed::Req,
            1 => Mraed::Rep,
            2 => Mraed::Lap,
            other => {
                return Err(ParseError::unsupported(
                    Layer::Cm,
                    "message mraed",
                    other.into(),
                    "0 (REQ), 1 (REP) or 2 (LAP)",
                ));
            }
        };
        Ok(Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            mraed,
            service_timeout: d[9] >> 3,
            private: PrivateData::read(d, 10),
        })
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        d[8] = (self.mraed as u8) << 6;
        d[9] = self.service_timeout << 3;
        self.private.write(d, 10);
    }
}

/// The message that a [`Rej`] rejects (IBTA 1.7, 12.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejected {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// No particular message.
    NoMessage,
}

/// Rejected (IBTA 1.7, 12.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rej<'a> {
    /// The sender's communication ID; 0 if it has none.
    pub local_id: u32,
    /// The recipient's communication ID; 0 if the sender does not know it.
    pub remote_id: u32,
    /// The rejected message.
    pub rejected: Rejected,
    /// The reason.
    pub reason: RejectReason,
    /// Additional information about the reason (ARI). Unlike private data, it is sent with its
    /// length.
    pub info: PrivateData<'a, 72>,
    /// Private data.
    pub private: PrivateData<'a, 148>,
}

impl<'a> Rej<'a> {
    // rule: 12.6.7-rej
    pub(super) fn read(d: &'a Data) -> Result<Self, ParseError> {
        let rejected = match d[8] >> 6 {
            0 => Rejected::Req,
            1 => Rejected::Rep,
            2 => Rejected::NoMessage,
            other => {
                return Err(ParseError::unsupported(
                    Layer::Cm,
                    "message rejected",
                    other.into(),
                    "0 (REQ), 1 (REP) or 2 (no message)",
                ));
            }
        };
        let len = usize::from(d[9] >> 1);
        let info = d[12..84].get(..len).and_then(PrivateData::new);
        let info = info.ok_or(ParseError::too_large(
            Layer::Cm,
            "reject info length",
            len,
            72,
        ))?;
        Ok(Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            rejected,
            reason: RejectReason(be16(d, 10)),
            info,
            private: PrivateData::read(d, 84),
        })
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        d[8] = (self.rejected as u8) << 6;
        d[9] = (self.info.bytes().len() as u8) << 1;
        put(d, 10, self.reason.0.to_be_bytes());
        self.info.write(d, 12);
        self.private.write(d, 84);
    }
}

/// Reply to a request for a connection (IBTA 1.7, 12.6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rep<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The recipient's communication ID.
    pub remote_id: u32,
    /// Not used by the supported kinds of connections.
    pub qkey: QKey,
    /// The sender's QP, unless it is an XRC target.
    pub qpn: Qpn,
    /// The end-to-end context number. If the sender is an XRC target, it carries the sender's QP
    /// (Annex A14).
    pub eecn: Qpn,
    /// The starting PSN of the recipient's send queue, which the sender expects first.
    pub psn: Psn,
    /// The number of READs and atomics that the sender accepts at a time.
    pub responder_resources: u8,
    /// The maximum number of READs and atomics that the sender will have outstanding.
    pub initiator_depth: u8,
    /// The delay of the sender's acknowledgements: 5 bits, 4.096 µs × 2^t.
    pub target_ack_delay: u8,
    /// The result for the alternate path, 2 bits; 1 means not supported.
    pub failover: u8,
    /// Whether the sender's acknowledgements carry credits.
    pub flow_control: bool,
    /// The recipient's RNR retry count, 3 bits; 7 for no limit.
    pub rnr_retry_count: u8,
    /// Whether the sender's QP takes its receives from an SRQ.
    pub srq: bool,
    /// The GUID of the sender's channel adapter.
    pub ca_guid: u64,
    /// Private data.
    pub private: PrivateData<'a, 196>,
}

impl<'a> Rep<'a> {
    // rule: 12.6.8-rep
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            qkey: QKey(be32(d, 8)),
            qpn: Qpn::from_bits(be24(d, 12)),
            eecn: Qpn::from_bits(be24(d, 16)),
            psn: Psn::new(be24(d, 20)),
            responder_resources: d[24],
            initiator_depth: d[25],
            target_ack_delay: d[26] >> 3,
            failover: d[26] >> 1 & 0x3,
            flow_control: d[26] & 1 != 0,
            rnr_retry_count: d[27] >> 5,
            srq: d[27] & 0x10 != 0,
            ca_guid: be64(d, 28),
            private: PrivateData::read(d, 36),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        put(d, 8, self.qkey.0.to_be_bytes());
        put24(d, 12, self.qpn.get());
        put24(d, 16, self.eecn.get());
        put24(d, 20, self.psn.get());
        d[24] = self.responder_resources;
        d[25] = self.initiator_depth;
        d[26] =
            self.target_ack_delay << 3 | (self.failover & 0x3) << 1 | u8::from(self.flow_control);
        d[27] = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put(d, 28, self.ca_guid.to_be_bytes());
        self.private.write(d, 36);
    }
}

/// Ready to use (IBTA 1.7, 12.6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtu<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The recipient's communication ID.
    pub remote_id: u32,
    /// Private data.
    pub private: PrivateData<'a, 224>,
}

impl<'a> Rtu<'a> {
    // rule: 12.6.9-rtu
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            private: PrivateData::read(d, 8),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        self.private.write(d, 8);
    }
}
