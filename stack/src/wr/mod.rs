//! Work requests and completions: the interface between an application and the NIC.

mod completion;
mod refused;
mod remote;
mod request;

pub use completion::{
    Completion, CompletionError, DatagramSource, NetworkHeader, WcOpcode, WcStatus,
};
pub use refused::PostError;
pub use remote::{ParseRemoteAddrError, RemoteAddr};
pub use request::{Payload, SendFlags, SendRequest, Target};

use crate::kind::QpKind;
use crate::memory::MwBind;
use roce_wire::{FlushPlacement, FlushSelectivity};

/// The maximum number of scatter/gather elements of a work request.
pub const MAX_SGE: usize = 32;

/// The maximum length of a message: 2^31 bytes (IBTA 1.7, 9.7.2).
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

/// The total length of all elements.
pub(crate) fn total_len(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// The parameters of a FLUSH (IBTA 1.7, Annex A19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// The first byte. For a whole region, only the key matters.
    pub remote: RemoteAddr,
    /// The number of bytes, at most 2^31.
    pub len: u32,
    /// The requested placement. Persistence needs memory of the peer that can be made durable.
    pub placement: FlushPlacement,
    /// The `len` bytes, or the whole region.
    pub selectivity: FlushSelectivity,
}

/// What a send work request does (IBTA 1.7, 10.8 and 11.4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Replaces 8 bytes of the peer's memory with `swap` if they equal `compare`; fetches the
    /// previous value.
    CompareSwap {
        /// The address; a multiple of 8.
        remote: RemoteAddr,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Adds to 8 bytes of the peer's memory; fetches the previous value.
    FetchAdd {
        /// The address; a multiple of 8.
        remote: RemoteAddr,
        /// The summand; wraps.
        add: u64,
    },
    /// Waits until earlier WRITEs to some memory of the peer are visible to all its threads (IBTA
    /// 1.7, Annex A19). Has no local memory.
    Flush(Flush),
    /// Places 8 bytes atomically in the peer's memory, after all FLUSHes before it (IBTA 1.7, Annex
    /// A19). The address is a multiple of 8.
    AtomicWrite(RemoteAddr),
    /// Binds a local memory window (IBTA 1.7, 10.6.7). It is executed after all earlier requests
    /// have started, and before any later request starts.
    BindMw(MwBind),
    /// Invalidates a local key: a window of type 2 or a region that allows it (IBTA 1.7, 10.6.5).
    /// It waits until all earlier requests have completed.
    LocalInv(u32),
}

/// Operations that the same transport services have (IBTA 1.7, 10.2.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpGroup {
    /// SEND, also with immediate data.
    Send,
    /// WRITE, also with immediate data; binding and invalidating local keys.
    Write,
    /// What needs a reliable service: SEND with Invalidate, READ, the atomics, FLUSH, ATOMIC WRITE.
    Reliable,
}

impl QpKind {
    /// Whether a QP of this kind can post these operations.
    // rule: 9.8.2-operations
    #[inline]
    pub const fn supports(self, group: OpGroup) -> bool {
        match self {
            Self::Rc | Self::XrcInitiator => true,
            Self::Uc => matches!(group, OpGroup::Send | OpGroup::Write),
            Self::Ud => matches!(group, OpGroup::Send),
            // It has no send queue.
            Self::XrcTarget => false,
        }
    }
}

impl SendOp {
    /// The group of the operation.
    #[inline]
    pub const fn group(&self) -> OpGroup {
        match self {
            Self::Send | Self::SendImm(_) => OpGroup::Send,
            Self::Write(_) | Self::WriteImm(..) | Self::BindMw(_) | Self::LocalInv(_) => {
                OpGroup::Write
            }
            _ => OpGroup::Reliable,
        }
    }

    /// Whether the operation has a response of its own, for which the peer needs resources: READ,
    /// the atomics, FLUSH and ATOMIC WRITE.
    pub(crate) fn is_fetch(&self) -> bool {
        matches!(self, Self::Read(_)) || self.is_atomic() || self.is_placement()
    }

    /// Whether it is an operation of Annex A19, whose response is that of a READ of no bytes.
    pub(crate) fn is_placement(&self) -> bool {
        matches!(self, Self::Flush(_) | Self::AtomicWrite(_))
    }

    /// Whether it has no local memory.
    pub(crate) fn has_no_elements(&self) -> bool {
        self.is_local() || matches!(self, Self::Flush(_))
    }

    /// Whether its payload is exactly 8 bytes.
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

    /// Whether it is executed locally, without a packet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::BindMw(_) | Self::LocalInv(_))
    }

    /// The remote memory that it uses.
    pub(crate) fn remote(&self) -> Option<RemoteAddr> {
        match self {
            Self::Write(remote)
            | Self::WriteImm(remote, _)
            | Self::Read(remote)
            | Self::CompareSwap { remote, .. }
            | Self::FetchAdd { remote, .. }
            | Self::AtomicWrite(remote)
            | Self::Flush(Flush { remote, .. }) => Some(*remote),
            Self::Send
            | Self::SendImm(_)
            | Self::SendInvalidate(_)
            | Self::BindMw(_)
            | Self::LocalInv(_) => None,
        }
    }

    /// The number of bytes that a report names: those of the window or of the flush, and else the
    /// payload.
    pub(crate) fn reported_len(&self, payload: u32) -> u32 {
        match self {
            Self::BindMw(bind) => u32::try_from(bind.len).unwrap_or(u32::MAX),
            Self::Flush(flush) => flush.len,
            _ => payload,
        }
    }

    // rule: 9.7.7.2-others-free
    /// Whether the peer consumes a receive work request for it.
    pub(crate) fn consumes_receive(&self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm(_) | Self::SendInvalidate(_) | Self::WriteImm(..)
        )
    }

    /// The opcode of its completion.
    // rule: 11.6.1-opcode
    pub(crate) fn completion_opcode(&self) -> WcOpcode {
        match self {
            Self::Send | Self::SendImm(_) | Self::SendInvalidate(_) => WcOpcode::Send,
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

/// A request for the receive queue.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// The memory for a SEND's bytes.
    pub sges: &'a [Sge],
}
