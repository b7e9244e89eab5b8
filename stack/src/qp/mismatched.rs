//! The properties of a packet that do not fit this QP.

use super::Core;
use crate::counters::DropReason;
use crate::encapsulation::RxMeta;
use crate::mismatch::{Difference, Mismatch};
use roce_wire::{Packet, Psn};

/// Why a QP did not admit a packet; `None` if it is of no interest.
pub(crate) fn not_admitted(
    core: &Core,
    meta: &RxMeta,
    packet: &Packet<'_>,
    reason: DropReason,
) -> Option<Mismatch> {
    let difference = match reason {
        DropReason::WrongTransport | DropReason::WrongDirection => Difference::Service(core.kind),
        DropReason::WrongState => Difference::State(core.state),
        DropReason::WrongPeer => {
            let path = core.config.path?;
            Difference::Peer {
                to: meta.dst,
                connected: (path.src, path.dst),
            }
        }
        DropReason::WrongVersion => Difference::Version,
        DropReason::WrongPKey => Difference::Partition,
        _ => return None,
    };
    Some(Mismatch::new(core.qpn, meta, packet, (reason, difference)))
}

/// Of the first packets of a peer, which begins with another PSN.
pub(crate) fn other_psn(core: &Core, packet: &Packet<'_>, expected: Psn) -> Option<Mismatch> {
    Some(Mismatch {
        qpn: core.qpn,
        from: core.config.path?.dst,
        opcode: packet.bth.opcode,
        times: 1,
        reason: DropReason::OutOfSequence,
        difference: Difference::FirstPsn {
            sent: packet.bth.psn,
            expected,
        },
    })
}
