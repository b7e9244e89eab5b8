//! Work requests and completions: what passes between an application and the NIC.

use crate::address::Destination;
use crate::memory::{AccessError, WindowBind};
use crate::srq::Srqn;
use bitflags::bitflags;
use roce_wire::{FlushPlacement, FlushSelectivity, Qpn};

/// The most scatter/gather elements that a work request can have.
pub const MAX_SGE: usize = 32;

/// The longest message: 2^31 bytes (IBTA 1.7, 9.7.2).
pub const MAX_MESSAGE_BYTES: u64 = 1 << 31;

/// A scatter/gather element: a stretch of a registered region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address of the first byte, in the region's own address space.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAddr {
    /// Virtual address in the peer's region.
    pub addr: u64,
    /// The region's remote key.
    pub rkey: u32,
}

/// What a FLUSH is about (IBTA 1.7, Annex A19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Where the bytes begin. Of a whole region, only the key matters.
    pub remote: RemoteAddr,
    /// How many bytes, at most 2^31.
    pub len: u32,
    /// How far they must have got. Memory of this stack is never persistent, so a peer
    /// that runs it refuses persistence.
    pub placement: FlushPlacement,
    /// Those bytes, or the whole region.
    pub selectivity: FlushSelectivity,
}

/// What a send work request does (IBTA 1.7, 10.8 and 11.4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Delivers the bytes into a receive work request of the peer.
    Send,
    /// SEND that also delivers 32 bits of immediate data.
    SendImm(u32),
    /// SEND that also invalidates a remote key at the peer.
    SendInvalidate(u32),
    /// Places the bytes in the peer's memory.
    Write(RemoteAddr),
    /// WRITE that also consumes a receive work request and delivers 32 bits.
    WriteImm(RemoteAddr, u32),
    /// Fetches bytes of the peer's memory.
    Read(RemoteAddr),
    /// Replaces 8 bytes of the peer's memory with `swap` if they equal `compare`;
    /// fetches what was there before.
    CompareSwap {
        /// Where; a multiple of 8.
        remote: RemoteAddr,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds to 8 bytes of the peer's memory; fetches what was there before.
    FetchAdd {
        /// Where; a multiple of 8.
        remote: RemoteAddr,
        /// The summand; wraps.
        add: u64,
    },
    /// Waits until earlier WRITEs to some memory of the peer are visible to everybody
    /// there (IBTA 1.7, Annex A19). Has no local memory.
    Flush(Flush),
    /// Places 8 bytes in the peer's memory at once, after all FLUSHes before it
    /// (IBTA 1.7, Annex A19). The address is a multiple of 8.
    AtomicWrite(RemoteAddr),
    /// Binds a memory window, here (IBTA 1.7, 10.6.7). It begins after everything
    /// before it has begun; what follows finds the window bound.
    BindMw(WindowBind),
    /// Invalidates a key, here: a window of type 2 or a region that allows it (IBTA
    /// 1.7, 10.6.5). It waits until everything before it has completed.
    LocalInv(u32),
    /// Delivers the bytes, one packet at most, into a receive work request of any UD
    /// QP, or of all in a multicast group. (UD only.)
    SendTo(Destination),
    /// The same, with 32 bits of immediate data.
    SendImmTo(Destination, u32),
}

impl SendOp {
    /// Whether the operation has an answer of its own, for which the peer needs
    /// resources: READ, the atomics, FLUSH and ATOMIC WRITE.
    pub(crate) fn is_fetch(&self) -> bool {
        matches!(self, Self::Read(_)) || self.is_atomic() || self.is_placement()
    }

    /// Whether it is an operation of Annex A19, which is answered like a READ of no
    /// bytes.
    pub(crate) fn is_placement(&self) -> bool {
        matches!(self, Self::Flush(_) | Self::AtomicWrite(_))
    }

    /// Whether it has no local memory.
    pub(crate) fn has_no_elements(&self) -> bool {
        self.is_local() || matches!(self, Self::Flush(_))
    }

    /// Whether it is about 8 bytes, no more and no fewer.
    pub(crate) fn is_word(&self) -> bool {
        self.is_atomic() || matches!(self, Self::AtomicWrite(_))
    }

    /// Whether the operation is an atomic.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether it carries bytes of local memory to the peer.
    pub(crate) fn sends_bytes(&self) -> bool {
        matches!(self, Self::AtomicWrite(_)) || !self.is_fetch() && !self.is_local()
    }

    /// Whether it is done here, without a packet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::BindMw(_) | Self::LocalInv(_))
    }

    // rule: 9.7.7.2-others-free
    /// Whether the peer consumes a receive work request for it.
    pub(crate) fn consumes_receive(&self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImm(_)
                | Self::SendInvalidate(_)
                | Self::WriteImm(..)
                | Self::SendTo(_)
                | Self::SendImmTo(..)
        )
    }

    /// What its completion says.
    // rule: 11.6.1-opcode
    pub(crate) fn completion_opcode(&self) -> WcOpcode {
        match self {
            Self::Send
            | Self::SendImm(_)
            | Self::SendInvalidate(_)
            | Self::SendTo(_)
            | Self::SendImmTo(..) => WcOpcode::Send,
            Self::Write(_) | Self::WriteImm(..) => WcOpcode::RdmaWrite,
            Self::Read(_) => WcOpcode::RdmaRead,
            Self::CompareSwap { .. } => WcOpcode::CompareSwap,
            Self::FetchAdd { .. } => WcOpcode::FetchAdd,
            Self::Flush(_) => WcOpcode::Flush,
            Self::AtomicWrite(_) => WcOpcode::AtomicWrite,
            Self::BindMw(_) => WcOpcode::BindMw,
            Self::LocalInv(_) => WcOpcode::LocalInv,
        }
    }
}

bitflags! {
    /// Modifiers of a send work request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u32 {
        /// Ask for a completion. (Errors always complete.)
        const SIGNALED = 1;
        /// Raise a solicited event at the peer.
        const SOLICITED = 2;
        /// Wait for earlier READs and atomics before starting (IBTA 1.7, 10.8.3.3).
        // rule: 10.8.3-fence
        const FENCE = 4;
        /// Copy the bytes when the request is posted, so that their memory is free
        /// for something else at once. SEND and WRITE only, up to
        /// [`QpInit::max_inline`](crate::QpInit::max_inline) bytes.
        const INLINE = 8;
    }
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Local memory: the source of SEND and WRITE, the destination of READ and
    /// atomics (8 bytes).
    pub sges: &'a [Sge],
    /// Modifiers.
    pub flags: SendFlags,
}

/// A request for the receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where a SEND's bytes go.
    pub sges: &'a [Sge],
}

/// How a work request ended (IBTA 1.7, 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcStatus {
    /// As asked.
    Success,
    /// The receive buffer was too small, or a request's length illegal.
    LocalLengthError,
    /// The QP was not able to do it.
    LocalQpOperationError,
    /// A local key, address or right was wrong.
    LocalProtectionError,
    /// A receive for a WRITE with immediate of the peer: the WRITE was denied the
    /// memory that it names here.
    LocalAccessError,
    /// The QP had failed before this request's turn came.
    WorkRequestFlushed,
    /// A memory window was not bound, or a key not invalidated: window, key, region,
    /// bounds or rights were wrong. (IBTA: memory management operation error.)
    MemoryWindowBindError,
    /// The peer answered with something that fits no request.
    BadResponse,
    /// The peer called the request invalid.
    RemoteInvalidRequest,
    /// The peer denied access: remote key, address or right.
    RemoteAccessError,
    /// The peer failed to do it.
    RemoteOperationError,
    /// The peer did not answer: transport retries used up.
    RetryExceeded,
    /// The peer had no receive request posted for longer than we may wait.
    RnrRetryExceeded,
}

impl WcStatus {
    /// What it means and what to look at, in a phrase.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLengthError => "local length error: the receive buffer is too small",
            Self::LocalQpOperationError => "local QP operation error",
            Self::LocalProtectionError => {
                "local protection error: check lkey, address, length and rights of the local region"
            }
            Self::LocalAccessError => {
                "local access error: the peer's WRITE with immediate was denied its memory"
            }
            Self::WorkRequestFlushed => "flushed: an earlier request had failed",
            Self::MemoryWindowBindError => {
                "memory window bind error: check that window, region and QP are of one \
                 protection domain, the region has MW_BIND, a window of type 2 is not bound \
                 already, and the key to invalidate may be"
            }
            Self::BadResponse => "the peer's response fits no request",
            Self::RemoteInvalidRequest => {
                "the peer refused the request: operation not enabled, too long for its receive \
                 buffer, or malformed"
            }
            Self::RemoteAccessError => {
                "the peer denied access: check rkey, remote address, length and remote rights"
            }
            Self::RemoteOperationError => "the peer failed to complete the request",
            Self::RetryExceeded => "the peer does not answer: transport retries used up",
            Self::RnrRetryExceeded => "the peer posted no receive request in time",
        }
    }
}

impl core::fmt::Display for WcStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.explain())
    }
}

/// Which operation completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcOpcode {
    /// A SEND of any kind.
    Send,
    /// A WRITE, with immediate or without.
    RdmaWrite,
    /// A READ.
    RdmaRead,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// A FLUSH.
    Flush,
    /// An ATOMIC WRITE.
    AtomicWrite,
    /// A memory window was bound.
    BindMw,
    /// A key was invalidated.
    LocalInv,
    /// A SEND arrived.
    Recv,
    /// A WRITE with immediate arrived.
    RecvRdmaWithImm,
}

/// The end of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// As given with the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was; meaningful for every status except that of flushed receives,
    /// which say [`WcOpcode::Recv`].
    pub opcode: WcOpcode,
    /// Bytes received or fetched, by receives, READs and atomics; bytes sent by others.
    pub byte_len: u32,
    /// The local QP.
    pub qpn: Qpn,
    /// The immediate data that came along.
    pub imm: Option<u32>,
    /// The remote key that the peer's SEND invalidated.
    pub invalidated_rkey: Option<u32>,
    /// Where a datagram came from. (UD only.)
    pub source: Option<Source>,
}

/// Where a received datagram came from (IBTA 1.7, 11.4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The sender's QP.
    pub qpn: Qpn,
    /// The index of the packet's partition key in the port's table.
    pub pkey_index: u16,
    /// Whether the first 40 bytes of the buffer hold a network header: on RoCE always.
    pub grh: bool,
}

/// Why a work request was not accepted. Nothing of it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// No QP has this number.
    UnknownQp(Qpn),
    /// The QP's state takes no such request: sends need RTS (SQD and ERR accept
    /// them too), receives anything but RESET.
    InvalidState(crate::qp::QpState),
    /// The queue holds as many requests as it was made for.
    QueueFull {
        /// Its size.
        depth: usize,
    },
    /// More scatter/gather elements than the queue was made for.
    TooManySges {
        /// How many came.
        given: usize,
        /// How many are allowed.
        max: usize,
    },
    /// The message is longer than 2^31 bytes.
    MessageTooLong {
        /// The sum of the elements.
        bytes: u64,
    },
    /// The local buffer of an atomic or ATOMIC WRITE must be 8 bytes in all.
    AtomicLength {
        /// The sum of the elements.
        bytes: u64,
    },
    /// READ or atomic on a QP with `max_rd_atomic` 0.
    NoReadsAllowed,
    /// More inline data than the queue was made for.
    InlineTooLong {
        /// The sum of the elements.
        bytes: u64,
        /// How many are allowed.
        max: usize,
    },
    /// An operation that sends no bytes of memory can't be inline.
    NotInline(WcOpcode),
    /// The memory of inline data may not be read.
    InlineMemory(AccessError),
    /// No SRQ has this number.
    UnknownSrq(Srqn),
    /// The QP takes its receives from an SRQ.
    UsesSrq(Srqn),
    /// A datagram is longer than the path MTU.
    DatagramTooLong {
        /// The sum of the elements.
        bytes: u64,
        /// The largest that the port carries.
        mtu: usize,
    },
    /// The address handle belongs to another protection domain than the QP.
    ForeignAddress,
    /// QPs of this kind have no receive queue.
    NoReceiveQueue {
        /// The kind.
        kind: crate::qp::QpKind,
    },
    /// A request of an XRC initiator must say which SRQ of the peer it is for.
    NoSrqNamed,
    /// The QP's transport service has no such operation.
    WrongService {
        /// The service.
        kind: crate::qp::QpKind,
    },
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownQp(qpn) => write!(f, "no QP has number {qpn}"),
            Self::InvalidState(state) => write!(
                f,
                "the QP is in state {state:?}: sends need RTS, receives any state but RESET"
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
                    "{given} scatter/gather elements given, the queue was made for {max}"
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
                    "an atomic operation is about 8 bytes, the local buffer has {bytes}"
                )
            }
            Self::InlineTooLong { bytes, max } => write!(
                f,
                "{bytes} bytes of inline data given, the queue was made for {max}: send them \
                 from registered memory, or raise max_inline"
            ),
            Self::NotInline(opcode) => {
                write!(f, "{opcode:?} can't be inline: only SEND and WRITE can")
            }
            Self::InlineMemory(error) => write!(
                f,
                "the memory of the inline data may not be read ({error:?}): check lkey, address \
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
            Self::WrongService { kind } => write!(
                f,
                "a {kind} QP does no such operation: UC has SEND and WRITE, UD has SEND to an \
                 address handle, and only RC has the others"
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

impl std::error::Error for PostError {}
