//! The base transport header.

use crate::header::{be16, be32};
use crate::{Layer, Opcode, PKey, ParseError, Psn, Qpn};

/// The base transport header, which every packet starts with (IBTA 1.7, 9.2;
/// congestion bits: RoCEv2 Annex A17.4.8).
///
/// ```text
///  0               1               2               3
/// ├─ opcode ──────┼S│M│pad│tver ──┼─ partition key ───────────────┤
/// ├F│B│ reserved  ┼─ destination QP ──────────────────────────────┤
/// ├A│ reserved    ┼─ packet sequence number ──────────────────────┤
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bth {
    /// The type of the packet.
    pub opcode: Opcode,
    /// Solicited event: raises an event at the receiver.
    pub solicited: bool,
    /// The MigReq bit: the migration state is "migrated". Hardware sends 1, except in CNPs. Both
    /// values are accepted.
    pub mig_req: bool,
    /// Bytes of padding between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Transport header version, 4 bits; only 0 exists.
    pub version: u8,
    /// The partition.
    pub pkey: PKey,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification, set in CNPs.
    pub becn: bool,
    /// The destination queue pair.
    pub dest_qpn: Qpn,
    /// Whether the requester asks for an acknowledgement.
    pub ack_req: bool,
    /// The packet's sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 12;

    /// A header with these fields, the default partition, and MigReq set, as hardware expects. All
    /// other fields are 0.
    #[inline]
    pub const fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Bth {
        Bth {
            opcode,
            solicited: false,
            // rule: 9.2.3-migreq-sent
            mig_req: true,
            pad: 0,
            // rule: 9.2.5-version-sent
            version: 0,
            pkey: PKey::DEFAULT,
            fecn: false,
            becn: false,
            dest_qpn,
            ack_req: false,
            psn,
        }
    }

    /// Reads the header from the first [`Bth::LEN`] bytes; ignores the bytes after it and reserved
    /// bits. Accepts any version; [`crate::Packet::parse`] rejects every version but 0.
    ///
    /// # Errors
    /// If there are fewer bytes, or if the opcode is not in the table.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Bth, ParseError> {
        match bytes.first_chunk() {
            Some(header) => Bth::from_bytes(header),
            None => Err(ParseError::truncated(Layer::Bth, bytes.len(), Bth::LEN)),
        }
    }

    /// The destination QPN of the header that `bytes` begin with, for those who need it before they
    /// can trust the rest. `None` if the bytes end before it.
    #[inline]
    pub fn dest_qpn_of(bytes: &[u8]) -> Option<Qpn> {
        let word = bytes.get(field::CONGESTION..)?.first_chunk()?;
        Some(Qpn::from_bits(u32::from_be_bytes(*word)))
    }

    #[inline(always)]
    pub(crate) fn from_bytes(b: &[u8; Bth::LEN]) -> Result<Bth, ParseError> {
        let Some(opcode) = Opcode::from_byte(b[field::OPCODE]) else {
            // rule: 9.2.1-unknown-opcode
            return Err(unknown_opcode(b[field::OPCODE]));
        };
        let flags = b[field::FLAGS];
        // rule: 9.2-reserved-ignored
        let congestion = b[field::CONGESTION];
        Ok(Bth {
            opcode,
            // rule: 9.2.2-solicited-bit
            solicited: flags & 0x80 != 0,
            // rule: 9.2.3-migreq-bit
            mig_req: flags & 0x40 != 0,
            pad: flags >> 4 & 0x3,
            version: flags & 0xf,
            // rule: 9.2.6-pkey-field
            pkey: PKey(be16(b, field::PKEY)),
            fecn: congestion & 0x80 != 0,
            // rule: A17.4.8-becn
            becn: congestion & 0x40 != 0,
            // rule: 9.2.7-dest-qpn-field
            dest_qpn: Qpn::from_bits(be32(b, field::CONGESTION)),
            // rule: 9.2.8-ackreq-bit
            ack_req: b[field::ACK_REQ] & 0x80 != 0,
            // rule: 9.2.9-psn-field
            psn: Psn::new(be32(b, field::ACK_REQ)),
        })
    }

    /// Writes the header to the first [`Bth::LEN`] bytes, with zeros for reserved bits. Writes only
    /// the low 2 bits of `pad` and the low 4 bits of `version`.
    ///
    /// # Panics
    /// If `buf` is shorter than [`Bth::LEN`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        buf[..Bth::LEN].copy_from_slice(&self.to_bytes());
    }

    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; Bth::LEN] {
        let [pkey0, pkey1] = self.pkey.0.to_be_bytes();
        let [_, qpn0, qpn1, qpn2] = self.dest_qpn.get().to_be_bytes();
        let [_, psn0, psn1, psn2] = self.psn.get().to_be_bytes();
        [
            self.opcode.byte(),
            u8::from(self.solicited) << 7
                | u8::from(self.mig_req) << 6
                | (self.pad & 0x3) << 4
                | self.version & 0xf,
            pkey0,
            pkey1,
            // rule: 9.2-reserved-zero
            u8::from(self.fecn) << 7 | u8::from(self.becn) << 6,
            qpn0,
            qpn1,
            qpn2,
            u8::from(self.ack_req) << 7,
            psn0,
            psn1,
            psn2,
        ]
    }
}

#[cold]
fn unknown_opcode(found: u8) -> ParseError {
    ParseError::unsupported(
        Layer::Bth,
        "opcode",
        found.into(),
        "an opcode of RC, UC, UD, XRC or CNP",
    )
}

/// Offsets of the fields.
mod field {
    pub(super) const OPCODE: usize = 0;
    pub(super) const FLAGS: usize = 1;
    pub(super) const PKEY: usize = 2;
    /// Congestion bits, then the destination QP in three bytes.
    pub(super) const CONGESTION: usize = 4;
    /// The bit that asks for an acknowledgement, then the PSN in three bytes.
    pub(super) const ACK_REQ: usize = 8;
}

#[cfg(test)]
mod tests;
