//! Names the faults of the peer's requests.

use super::{Denial, Refusal, Responder};
use crate::cause::Cause;
use crate::memory::{Access, AccessError};
use crate::qp::{Core, Cx};
use roce_wire::{Opcode, Packet};

/// A request that is invalid for this cause.
#[cold]
pub(super) fn invalid(cx: &mut Cx<'_>, cause: Cause) -> Denial {
    cx.observe.failed(cause);
    Refusal::InvalidRequest.into()
}

/// A request whose packet does not follow the one before.
#[cold]
pub(super) fn out_of_place(cx: &mut Cx<'_>, packet: &Packet<'_>) -> Denial {
    let opcode = packet.bth.opcode;
    invalid(cx, Cause::OutOfPlace { opcode })
}

/// A request of the wrong length.
#[cold]
pub(super) fn wrong_length(cx: &mut Cx<'_>, core: &Core, packet: &Packet<'_>) -> Denial {
    let cause = Cause::WrongLength {
        opcode: packet.bth.opcode,
        len: packet.payload.len(),
        mtu: core.config.mtu(),
    };
    invalid(cx, cause)
}

/// A request that lacks a header, or is not supported.
#[cold]
pub(super) fn unsupported(cx: &mut Cx<'_>, packet: &Packet<'_>) -> Denial {
    let opcode = packet.bth.opcode;
    invalid(cx, Cause::Unsupported { opcode })
}

/// Names an access to memory that a request was denied.
#[cold]
pub(super) fn name_denied(
    cx: &mut Cx<'_>,
    opcode: Opcode,
    access: (u32, u64, u64),
    rights: Access,
    error: AccessError,
) {
    let denied = cx.nic.memory.denied(access, rights, error);
    cx.observe.failed(Cause::PeerAccess { opcode, denied });
}

/// A request that needs a right that the QP does not have.
#[cold]
pub(super) fn no_right(cx: &mut Cx<'_>, packet: &Packet<'_>, right: Access) -> Denial {
    let opcode = packet.bth.opcode;
    invalid(cx, Cause::PeerRight { opcode, right })
}

impl Responder {
    /// A READ, an atomic, a FLUSH or an ATOMIC WRITE that is invalid: it comes within a message, the
    /// QP lacks the right, there are too many at once, or else `rest`.
    #[cold]
    pub(super) fn invalid_fetch(
        &self,
        cx: &mut Cx<'_>,
        core: &Core,
        packet: &Packet<'_>,
        right: Access,
        rest: Cause,
    ) -> Denial {
        if self.inbound.is_some() {
            return out_of_place(cx, packet);
        }
        if !core.config.access.contains(right) {
            return no_right(cx, packet, right);
        }
        let limit = core.config.max_dest_rd_atomic;
        invalid(
            cx,
            match self.replies.has_room() {
                true => rest,
                false => Cause::TooManyFetches { limit },
            },
        )
    }
}
