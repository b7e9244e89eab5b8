//! The RDMA NIC as a pure state machine.
//!
//! Nothing in this crate does I/O, reads a clock or starts a thread, and all randomness comes from
//! the seed that the caller passes. A [`Nic`] takes `(now, packet)` and returns packets,
//! [`Completion`]s, [`Event`]s and its next deadline. The same seed and the same calls give the
//! same run, bit for bit.
//!
//! ```text
//!   post_send ──► ┌─────────────────── Nic ──────────────────┐ ──► CompletionQueue
//!   post_recv ──► │  Qp: requester │ responder    MemoryTable│ ──► Event
//!                 └──────▲───────────────────────────────────┘
//!                        │ receive, transmit, handle_timeouts
//!                  Transmit (UDP sockets, AF_XDP, simulated)
//! ```
//!
//! Names are those of the InfiniBand Architecture Specification, volume 1, release
//! 1.7, cited as "IBTA 1.7" with the section that a rule comes from.
#![warn(missing_docs)]

mod address;
mod addresses;
mod cause;
mod congestion;
mod counters;
mod cq;
mod duration_text;
mod encapsulation;
mod event;
mod hash;
mod ids;
mod injected;
mod kind;
mod labelled;
mod memory;
mod mismatch;
mod nic;
mod peer_window;
mod persist;
mod priority;
mod qp;
mod qpn_range;
mod queue;
mod recently_freed;
mod recorder;
mod seq;
mod srq;
mod time;
mod traffic;
mod transmit;
mod wr;

pub use address::{AddressError, AddressHandle, Destination};
pub use addresses::Addresses;
pub use cause::{Cause, FailedRequest, Failure, InjectedFailure};
pub use congestion::{
    CongestionControl, CongestionSettings, CongestionSettingsError, DcqcnParameters,
    DelayParameters, NotificationPoint, QpCongestion, RateLimit,
};
pub use counters::{Counters, DropReason, Stat};
pub use cq::{CompletionQueue, CqOverrun, CqResizeError, Notify};
pub use duration_text::DurationText;
pub use encapsulation::{IpCovered, RoceVersion, RxMeta, TxMeta};
pub use event::Event;
pub use ids::{CqId, Srqn, XrcdId};
pub use injected::{CompletionFate, CompletionFaults};
pub use kind::{QpKind, QpState};
pub use memory::{
    Access, AccessError, BindError, Buffer, BufferRangeError, DeniedAccess, DeregisterError,
    Durable, Extent, FaultSafe, Memory, MemoryFault, MemoryTable, MwBind, MwId, MwType, NotDurable,
    PdId, RegisterError, Reregister, ReregisterError, Span,
};
pub use mismatch::{Difference, Mismatch};
pub use nic::{
    CreateQpError, MAD_BYTES, MadError, MulticastError, Nic, NicConfig, QpStatus, ReceivedMad,
    Usage,
};
pub use persist::{Persist, Persisted};
pub use priority::PriorityMap;
pub use qp::{MAX_RD_ATOMIC, ModifyError, QpAttributes, QpConfig, QpInit, largest_path_mtu};
pub use qpn_range::QpnRange;
pub use queue::{MAX_INLINE_BYTES, MAX_QUEUE_DEPTH, QueueLimits};
pub use recently_freed::RecentlyFreed;
pub use recorder::{QpEvent, Recorded, Verdict};
pub use srq::{MAX_SRQS, SrqAttributes, SrqError, SrqInit, SrqStatus};
pub use time::{Duration, Instant};
pub use traffic::QpTraffic;
pub use transmit::{Acknowledged, Flow, Position, ReserveError, Sequenced, Transmit, TxSlot};
pub use wr::{
    Completion, CompletionError, DatagramSource, Flush, MAX_MESSAGE_BYTES, MAX_SGE, NetworkHeader,
    ParseRemoteAddrError, Payload, PostError, RecvRequest, RemoteAddr, SendFlags, SendOp,
    SendRequest, Sge, Target, WcOpcode, WcStatus,
};
