//! The transport services and the states that a QP can have (IBTA 1.7, 3.2.2 and 9.7 to 9.8).

use roce_wire::{Opcode, Transport};

/// The transport service of a QP (IBTA 1.7, 3.2.2).
// rule: CA17-28-no-raw
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QpKind {
    /// Reliable connection: every operation, acknowledged and retried (IBTA 1.7, 9.7).
    #[default]
    Rc,
    /// Unreliable connection: SEND and WRITE to one peer, without acknowledgement. A message that
    /// lost a packet is lost (IBTA 1.7, 9.8.2).
    Uc,
    /// Unreliable datagram: SEND of one packet to any QP, or to a multicast group (IBTA 1.7,
    /// 9.8.3).
    Ud,
    /// The sending end of an extended reliable connection. It supports what RC does; each request
    /// names an SRQ of the peer (IBTA 1.7, annex A14).
    XrcInitiator,
    /// The receiving end of an extended reliable connection. It serves all SRQs of its XRC domain
    /// (IBTA 1.7, annex A14).
    XrcTarget,
}

impl QpKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Rc,
        Self::Uc,
        Self::Ud,
        Self::XrcInitiator,
        Self::XrcTarget,
    ];

    /// The transport of the packets that it sends and receives.
    pub const fn transport(self) -> Transport {
        match self {
            Self::Rc => Transport::Rc,
            Self::Uc => Transport::Uc,
            Self::Ud => Transport::Ud,
            Self::XrcInitiator | Self::XrcTarget => Transport::Xrc,
        }
    }

    /// Whether it is one of the ends of an extended reliable connection.
    pub const fn is_xrc(self) -> bool {
        matches!(self, Self::XrcInitiator | Self::XrcTarget)
    }

    /// This kind's opcode for the same operation as an RC opcode.
    pub(crate) fn opcode(self, rc: Opcode) -> Opcode {
        if self.is_xrc() {
            // The services differ only in the upper three bits.
            let byte = rc.byte() | Transport::Xrc.bits() << 5;
            Opcode::from_byte(byte).unwrap_or(rc)
        } else {
            rc
        }
    }

    /// Whether a QP of this kind receives packets with this opcode.
    // rule: A14-ini-tgt
    pub(crate) fn accepts(self, opcode: Opcode) -> bool {
        match self {
            Self::XrcInitiator => !opcode.is_request(),
            Self::XrcTarget => opcode.is_request(),
            Self::Rc | Self::Uc | Self::Ud => true,
        }
    }

    /// Whether a QP of this kind has one peer, which is set in the transition to RTR.
    pub const fn is_connected(self) -> bool {
        !matches!(self, Self::Ud)
    }

    /// Whether an error in the send queue leaves the receive queue running, in state
    /// SQE (IBTA 1.7, 10.3.1.6).
    // rule: 10.3.1-sqe
    pub(crate) const fn survives_send_errors(self) -> bool {
        matches!(self, Self::Uc | Self::Ud)
    }
}

impl core::fmt::Display for QpKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::XrcInitiator => "XRC initiator",
            Self::XrcTarget => "XRC target",
        })
    }
}

/// The state of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Newly created: nothing can be posted.
    Reset,
    /// Receives can be posted; nothing is processed.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drain: requests that were begun complete, new ones are not begun.
    Sqd,
    /// The send queue failed; receiving continues. (UC and UD only.)
    Sqe,
    /// Failed: all posted requests complete as flushed.
    Err,
}

impl QpState {
    /// Its name in the specification, abbreviated as programs do: `RESET`, `INIT`, `RTR`,
    /// `RTS`, `SQD`, `SQE` or `ERR`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        }
    }
}
