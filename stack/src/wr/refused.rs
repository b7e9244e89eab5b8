//! Why a work request was not accepted.

use super::{MAX_MESSAGE_BYTES, WcOpcode};
use crate::ids::Srqn;
use crate::kind::QpKind;
use crate::memory::AccessError;
use roce_wire::Qpn;

/// Why a work request was not accepted. Nothing was posted.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// No QP has this number.
    UnknownQp(Qpn),
    /// The QP's state does not allow the request: sends need RTS (SQD and ERR accept them, too),
    /// receives any state but RESET.
    InvalidState(crate::kind::QpState),
    /// The queue is full.
    QueueFull {
        /// The depth of the queue.
        depth: usize,
    },
    /// More scatter/gather elements than the queue allows.
    TooManySges {
        /// The number of elements of the request.
        given: usize,
        /// The maximum.
        max: usize,
    },
    /// The message is longer than 2^31 bytes.
    MessageTooLong {
        /// The total length of the elements.
        bytes: u64,
    },
    /// The local buffer of an atomic or ATOMIC WRITE is not 8 bytes long in all.
    AtomicLength {
        /// The total length of the elements.
        bytes: u64,
    },
    /// READ or atomic on a QP with `max_rd_atomic` 0.
    NoReadsAllowed,
    /// More inline data than the queue allows.
    InlineTooLong {
        /// The total length of the elements.
        bytes: u64,
        /// The maximum.
        max: usize,
    },
    /// The operation sends no bytes, so it can't be inline.
    NotInline(WcOpcode),
    /// The request may not read the memory that its inline data should be copied from.
    InlineMemory(AccessError),
    /// No SRQ has this number.
    UnknownSrq(Srqn),
    /// The QP takes its receives from an SRQ.
    UsesSrq(Srqn),
    /// A datagram is longer than the path MTU.
    DatagramTooLong {
        /// The total length of the elements.
        bytes: u64,
        /// The longest datagram that the port carries.
        mtu: usize,
    },
    /// The address handle belongs to another protection domain than the QP.
    ForeignAddress,
    /// A receive was posted to a QP of a kind that has no receive queue.
    NoReceiveQueue {
        /// The kind.
        kind: QpKind,
    },
    /// The request of an XRC initiator names no SRQ of the peer.
    NoSrqNamed,
    /// The QP's transport service does not support the operation, or the kind of target.
    WrongService {
        /// The service.
        kind: QpKind,
        /// The operation.
        opcode: WcOpcode,
    },
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownQp(qpn) => write!(f, "no QP has number {qpn}"),
            Self::InvalidState(state) => write!(
                f,
                "the QP is in state {}: sends need RTS, receives any state but RESET",
                state.name()
            ),
            Self::QueueFull { depth } => {
                write!(
                    f,
                    "all {depth} entries of the queue are in use: poll completions first"
                )
            }
            Self::TooManySges { given, max } => {
                write!(
                    f,
                    "the request has {given} scatter/gather elements, the queue allows {max}"
                )
            }
            Self::MessageTooLong { bytes } => {
                write!(
                    f,
                    "the message has {bytes} bytes, the limit is {MAX_MESSAGE_BYTES}"
                )
            }
            Self::AtomicLength { bytes } => {
                write!(
                    f,
                    "an atomic operation needs a local buffer of 8 bytes, this one has {bytes}"
                )
            }
            Self::InlineTooLong { bytes, max } => write!(
                f,
                "the request has {bytes} bytes of inline data, the queue allows {max}: send them \
                 from registered memory, or raise max_inline"
            ),
            Self::NotInline(opcode) => {
                write!(f, "{opcode:?} can't be inline: only SEND and WRITE can")
            }
            Self::InlineMemory(error) => write!(
                f,
                "the memory of the inline data may not be read ({error}): check lkey, address \
                 and length"
            ),
            Self::NoReadsAllowed => {
                f.write_str("the QP has max_rd_atomic 0: set it in the transition to RTS")
            }
            Self::UnknownSrq(srq) => write!(f, "no shared receive queue has number {srq}"),
            Self::NoReceiveQueue { kind } => write!(
                f,
                "an {kind} has no receive queue: targets take receives from the SRQs of their \
                 domain, initiators take none"
            ),
            Self::NoSrqNamed => f.write_str(
                "a request of an XRC initiator is for an SRQ of the peer: post it with the \
                 SRQ's number",
            ),
            Self::UsesSrq(srq) => write!(
                f,
                "the QP takes its receives from shared receive queue {srq}: post them there"
            ),
            Self::WrongService { kind, opcode } => write!(
                f,
                "a {kind} QP does not support this {opcode:?}: {}",
                supported(*kind)
            ),
            Self::DatagramTooLong { bytes, mtu } => write!(
                f,
                "the datagram has {bytes} bytes, but must fit in one packet: at most {mtu}"
            ),
            Self::ForeignAddress => f.write_str(
                "the address handle belongs to another protection domain than the QP: make one \
                 in the QP's",
            ),
        }
    }
}

/// The requests that a QP of this kind supports, in words.
fn supported(kind: QpKind) -> &'static str {
    match kind {
        QpKind::Rc => "it has every operation, to its own peer",
        QpKind::Uc => {
            "it has SEND and WRITE, with and without immediate data, to its own peer; and local \
             invalidation and binding of windows"
        }
        QpKind::Ud => "it has SEND, with and without immediate data, to an address handle",
        QpKind::XrcInitiator => "it has every operation, to an SRQ of its peer",
        QpKind::XrcTarget => "it has no send queue",
    }
}

impl core::fmt::Debug for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PostError {}
