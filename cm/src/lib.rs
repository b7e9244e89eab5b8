//! Communication management: how two ends establish and end a connection, and how they find the QP
//! of a datagram service (IBTA 1.7, 12, and Annex A11).
//!
//! This crate does no I/O, reads no clock, starts no thread and uses no randomness other than its
//! seed. An [`Agent`] takes `(now, path, MAD)` and its owner's calls, and produces MADs, [`Event`]s
//! and its next deadline. With the same seed, the same sequence of calls produces exactly the same
//! output.
//!
//! ```text
//!  connect, accept, disconnect … ──► ┌─── Agent ───┐ ──► poll_event
//!        receive (a MAD from QP1) ──►│ connections │ ──► poll_transmit (a MAD for QP1)
//!                 handle_timeouts ──►└─────────────┘ ──► next_timeout
//! ```
//!
//! An agent knows nothing of queue pairs. Its owner creates them, passes their numbers and first
//! PSNs, and changes their states according to the peer's messages.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod agent;
mod counters;
mod error;
mod event;
mod ids;
mod private;
mod request;

pub use agent::{Agent, Pending, PendingStep};
pub use counters::Counters;
pub use error::CmError;
pub use event::Event;
pub use ids::{ConnectionId, ListenerId, Path};
pub use private::PrivateBytes;
pub use request::{
    Acceptance, Config, ConnectRequest, DatagramAcceptance, DatagramAsked, DatagramRequest, Reply,
    Request,
};
pub use roce_stack::{Addresses, Duration, Instant, QpnRange};
pub use roce_wire::cm::{
    IpService, PortSpace, RejectReason, ServiceId, ServiceType, SidrStatus, gid_of, ip_of,
};
pub use roce_wire::{MAD_LEN, PKey, PathMtu, Psn, QKey, Qpn};
