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
//! # Example
//!
//! Two NICs, in one thread: the first writes eight bytes into the memory of the second. The loop is
//! the driver. A real one passes packets to a port, reads a clock, and waits until a packet arrives
//! or [`Nic::next_timeout`] has come. `connected`, which the rendered example hides, makes
//! an RC QP on each NIC and brings both to RTS.
//!
//! ```
//! # use roce_port::memory::{MemoryIp, MemoryPort};
//! # use roce_stack::*;
//! # use roce_wire::{PathMtu, Psn, Qpn, RnrTimer};
//! # use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::ZERO;
//! let mut nics = [1, 2].map(|n| {
//!     Nic::new(&NicConfig { seed: [n; 32], max_packet_bytes: 1100, window_bytes: 1 << 16 })
//! });
//! let pds = nics.each_mut().map(Nic::alloc_pd);
//! let cq = Arc::new(CompletionQueue::new(CqId(1), 16));
//! let [a, b] = connected(&mut nics, pds, &cq)?;
//!
//! let source = Arc::new(Buffer::new(4096)?);
//! let target = Arc::new(Buffer::new(4096)?);
//! let lkey = nics[0].register_buffer(pds[0], source.clone(), Access::empty())?;
//! let remote = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
//! let rkey = nics[1].register_buffer(pds[1], target.clone(), remote)?;
//!
//! source.write(0, b"by RDMA!")?;
//! let from = Sge { addr: source.addr(), length: 8, lkey };
//! let to = RemoteAddr { addr: target.addr(), rkey };
//! nics[0].post_send(now, a, &SendRequest::new(7, SendOp::Write(to), from))?;
//!
//! let mut port = MemoryPort::new(MemoryIp::V4, 1100);
//! for side in [0, 1] {
//!     nics[side].transmit(now, &mut port); // first the WRITE, then its acknowledgement
//!     for frame in port.out.drain(..) {
//!         nics[1 - side].receive(now, &frame.meta, &frame.bytes);
//!     }
//! }
//! let completion = cq.poll()?.expect("the acknowledgement completes the WRITE");
//! assert_eq!((completion.wr_id, completion.status), (7, WcStatus::Success));
//! let mut written = [0; 8];
//! target.read(0, &mut written)?;
//! assert_eq!(&written, b"by RDMA!");
//! # let _ = b;
//! # Ok(())
//! # }
//! # fn connected(
//! #     nics: &mut [Nic; 2],
//! #     pds: [PdId; 2],
//! #     cq: &Arc<CompletionQueue>,
//! # ) -> Result<[Qpn; 2], Box<dyn std::error::Error>> {
//! #     let queue = QueueLimits { depth: 16, max_sge: 1 };
//! #     let mut qpns = Vec::new();
//! #     for (nic, pd) in nics.iter_mut().zip(pds) {
//! #         qpns.push(nic.create_qp(QpInit {
//! #             kind: QpKind::Rc,
//! #             pd,
//! #             send_cq: cq.clone(),
//! #             recv_cq: cq.clone(),
//! #             send: queue,
//! #             recv: queue,
//! #             max_inline: 0,
//! #             signal_all: true,
//! #         })?);
//! #     }
//! #     let addresses = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
//! #     for side in [0, 1] {
//! #         let init = QpAttributes {
//! #             state: Some(QpState::Init),
//! #             access: Some(Access::REMOTE_WRITE),
//! #             ..QpAttributes::default()
//! #         };
//! #         let rtr = QpAttributes {
//! #             state: Some(QpState::Rtr),
//! #             dest_qpn: Some(qpns[1 - side]),
//! #             path: Some(TxMeta {
//! #                 src: addresses[side],
//! #                 dst: addresses[1 - side],
//! #                 traffic_class: 0,
//! #                 hop_limit: 64,
//! #                 version: RoceVersion::V2,
//! #             }),
//! #             path_mtu: Some(PathMtu::Mtu1024),
//! #             rq_psn: Some(Psn::new(0)),
//! #             max_dest_rd_atomic: Some(1),
//! #             min_rnr_timer: Some(RnrTimer::SHORTEST),
//! #             ..QpAttributes::default()
//! #         };
//! #         let rts = QpAttributes {
//! #             state: Some(QpState::Rts),
//! #             sq_psn: Some(Psn::new(0)),
//! #             timeout: Some(14),
//! #             retry_cnt: Some(7),
//! #             rnr_retry: Some(7),
//! #             max_rd_atomic: Some(1),
//! #             ..QpAttributes::default()
//! #         };
//! #         for step in [init, rtr, rts] {
//! #             nics[side].modify_qp(Instant::ZERO, qpns[side], &step)?;
//! #         }
//! #     }
//! #     Ok([qpns[0], qpns[1]])
//! # }
//! ```
//!
//! Names are those of the InfiniBand Architecture Specification, volume 1, release
//! 1.7, cited as "IBTA 1.7" with the section that a rule comes from.
#![warn(missing_docs)]

mod address;
mod addresses;
mod cause;
mod completion_counter;
mod congestion;
mod counters;
mod cq;
mod duration_text;
mod encapsulation;
mod event;
mod hash;
mod ids;
mod kind;
mod labelled;
mod memory;
mod mismatch;
mod nic;
mod observe;
mod peer_window;
mod persist;
mod priority;
mod qp;
mod qpn_range;
mod queue;
mod recently_freed;
mod seq;
mod srq;
mod time;
mod traffic;
mod transmit;
mod wr;

pub use address::{AddressError, AddressHandle, Destination};
pub use addresses::Addresses;
pub use cause::{Cause, FailedRequest, Failure, InjectedFailure};
pub use completion_counter::{AttachCounterError, CompletionCounter, CountedOps, CounterUnit};
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
pub use observe::{Delivery, Intercepted, Interceptor, QpEvent, Recorded, Verdict};
pub use persist::{Persist, Persisted};
pub use priority::PriorityMap;
pub use qp::{MAX_RD_ATOMIC, ModifyError, QpAttributes, QpConfig, QpInit, largest_path_mtu};
pub use qpn_range::QpnRange;
pub use queue::{MAX_INLINE_BYTES, MAX_QUEUE_DEPTH, QueueLimits};
pub use recently_freed::RecentlyFreed;
pub use srq::{MAX_SRQS, SrqAttributes, SrqError, SrqInit, SrqStatus};
pub use time::{Duration, Instant};
pub use traffic::QpTraffic;
pub use transmit::{Acknowledged, Flow, Position, ReserveError, Sequenced, Transmit, TxSlot};
pub use wr::{
    Completion, CompletionError, DatagramSource, Flush, MAX_MESSAGE_BYTES, MAX_SGE, NetworkHeader,
    OpGroup, ParseRemoteAddrError, Payload, PostError, RecvRequest, RemoteAddr, SendFlags, SendOp,
    SendRequest, Sge, Target, WcOpcode, WcStatus,
};
