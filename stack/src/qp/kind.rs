//! The transport services that a QP can have (IBTA 1.7, 3.2.2 and 9.7 to 9.8).

use crate::wr::SendOp;
use roce_wire::Transport;

/// The transport service of a QP (IBTA 1.7, 3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QpKind {
    /// Reliable connection: every operation, acknowledged and retried (IBTA 1.7, 9.7).
    #[default]
    Rc,
    /// Unreliable connection: SEND and WRITE to one peer, without acknowledgement. A
    /// message that lost a packet is lost (IBTA 1.7, 9.8.2).
    Uc,
    /// Unreliable datagram: SEND of one packet to anybody, or to a multicast group
    /// (IBTA 1.7, 9.8.3).
    Ud,
}

impl QpKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Uc, Self::Ud];

    /// The service of the packets that it sends and takes.
    pub const fn transport(self) -> Transport {
        match self {
            Self::Rc => Transport::Rc,
            Self::Uc => Transport::Uc,
            Self::Ud => Transport::Ud,
        }
    }

    /// Whether a QP of this kind speaks to one peer, which it is told on its way to
    /// RTR.
    pub const fn is_connected(self) -> bool {
        !matches!(self, Self::Ud)
    }

    /// Whether an error in the send queue leaves the receive queue running, in state
    /// SQE (IBTA 1.7, 10.3.1.6).
    pub(crate) const fn survives_send_errors(self) -> bool {
        !matches!(self, Self::Rc)
    }

    /// Whether a QP of this kind can do the operation (IBTA 1.7, 10.2.4.4).
    pub(crate) const fn can_do(self, op: &SendOp) -> bool {
        match self {
            Self::Rc => !matches!(op, SendOp::SendTo(_) | SendOp::SendImmTo(..)),
            Self::Uc => matches!(
                op,
                SendOp::Send
                    | SendOp::SendImm(_)
                    | SendOp::Write(_)
                    | SendOp::WriteImm(..)
                    | SendOp::BindMw(_)
                    | SendOp::LocalInv(_)
            ),
            Self::Ud => matches!(op, SendOp::SendTo(_) | SendOp::SendImmTo(..)),
        }
    }
}

impl core::fmt::Display for QpKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
        })
    }
}
