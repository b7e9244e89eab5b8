//! The names that most programs use: `use roce_verbs::prelude::*;`. They are at the crate's root as
//! well, and in the modules that they belong to.

pub use crate::cm::{Connection, Listener};
pub use crate::completion::{Completion, CompletionQueue, WcStatus};
pub use crate::device::{Context, Device};
pub use crate::memory::{Access, MemoryRegion, ProtectionDomain, RemoteAddr, Sge};
pub use crate::qp::{ConnectOptions, Endpoint, Psn, QpKind, QpOptions, Qpn, QueuePair};
pub use crate::work::{RecvRequest, SendOp, SendRequest};
