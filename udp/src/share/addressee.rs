//! Decides which process a packet is for, from the same bytes as the BPF program.

use roce_stack::QpnRange;
use roce_wire::{Bth, Qpn};

/// Offset of the destination QPN's first byte in the BTH.
pub(super) const QPN: usize = 5;
/// Offset of the management class, in the MAD header after BTH and DETH.
pub(super) const CLASS: usize = MAD + 1;
/// Offset of the attribute ID, which identifies the message.
pub(super) const ATTRIBUTE: usize = MAD + 16;
/// Offset of the request ID in a SIDR_REP.
pub(super) const REQUEST_ID: usize = MESSAGE;
/// Offset of the remote communication ID, which all other replies carry.
pub(super) const REMOTE_ID: usize = MESSAGE + 4;
/// Offset of the lower half of the service ID in a REQ or SIDR_REQ.
pub(super) const SERVICE: usize = MESSAGE + 12;
/// The high bits of an ID are the part of the process that chose it.
pub(super) const ID_SHIFT: u32 = 25;

/// Offset of the MAD, which follows BTH and DETH.
const MAD: usize = 12 + 8;
/// Offset of the communication management message, which follows the MAD header.
const MESSAGE: usize = MAD + 24;

/// The management class of communication management (IBTA 1.7, 13.4.4).
pub(super) const COMMUNICATION: u8 = 7;

/// The attribute IDs of the communication management messages that are not steered by the remote ID
/// (IBTA 1.7, 16.7.3).
pub(super) mod attribute {
    pub(in super::super) const REQ: u16 = 0x10;
    pub(in super::super) const SIDR_REQ: u16 = 0x17;
    pub(in super::super) const SIDR_REP: u16 = 0x18;
}

/// The process that a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addressee {
    /// The process that has this part.
    Part(QpnRange),
    /// The process that serves the requested service, or else the process that receives all other
    /// management datagrams.
    Server,
    /// The packet is too short to tell.
    Unknown,
}

impl Addressee {
    /// The process that the packet is for. `transport` starts at the BTH.
    pub(super) fn of(transport: &[u8]) -> Self {
        match Bth::dest_qpn_of(transport) {
            Some(Qpn::QP1) => {}
            Some(qpn) => return Self::Part(QpnRange::of(qpn)),
            None => return Self::Unknown,
        }
        match transport.get(CLASS) {
            Some(&COMMUNICATION) => {}
            Some(_) => return Self::Server,
            None => return Self::Unknown,
        }
        let id_at = match field(transport, ATTRIBUTE).map(u16::from_be_bytes) {
            Some(attribute::REQ | attribute::SIDR_REQ) => return Self::Server,
            Some(attribute::SIDR_REP) => REQUEST_ID,
            Some(_) => REMOTE_ID,
            None => return Self::Unknown,
        };
        let id = field(transport, id_at).map(u32::from_be_bytes);
        // The seven high bits of an ID have as many values as there are parts.
        let part = id.and_then(|id| QpnRange::new((id >> ID_SHIFT) as u8));
        part.map_or(Self::Unknown, Self::Part)
    }
}

fn field<const N: usize>(transport: &[u8], at: usize) -> Option<[u8; N]> {
    transport.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u8) -> QpnRange {
        QpnRange::new(number).expect("a part")
    }

    /// A datagram to QP1 with a message whose request ID is 0x0600_0000 (part 3) and whose remote
    /// ID is 0x0a00_0000 (part 5).
    fn mad(class: u8, attribute: u16) -> Vec<u8> {
        let mut bytes = vec![0; 12 + 8 + 256 + 4];
        bytes[7] = 1;
        bytes[21] = class;
        bytes[36..38].copy_from_slice(&attribute.to_be_bytes());
        (bytes[44], bytes[48]) = (6, 10);
        bytes
    }

    #[test]
    fn each_message_identifies_its_process() {
        for attribute in [0x10, 0x17] {
            assert_eq!(Addressee::of(&mad(7, attribute)), Addressee::Server);
        }
        assert_eq!(Addressee::of(&mad(7, 0x18)), Addressee::Part(part(3)));
        for attribute in [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x19, 0x1a] {
            assert_eq!(Addressee::of(&mad(7, attribute)), Addressee::Part(part(5)));
        }
        assert_eq!(Addressee::of(&mad(3, 0x13)), Addressee::Server);
    }

    #[test]
    fn other_packets_are_for_the_part_of_their_destination_qpn() {
        let mut bytes = mad(7, 0x13);
        (bytes[5], bytes[7]) = (8, 1);
        assert_eq!(Addressee::of(&bytes), Addressee::Part(part(4)));
        (bytes[5], bytes[7]) = (0, 2);
        assert_eq!(Addressee::of(&bytes), Addressee::Part(part(0)));
        assert_eq!(Addressee::of(&bytes[..5]), Addressee::Unknown);
        let cut = &mad(7, 0x13)[..50];
        assert_eq!(Addressee::of(cut), Addressee::Unknown);
    }
}
