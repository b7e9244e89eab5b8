//! The names that every program uses: `use roce_verbs::prelude::*;`

pub use crate::{
    Access, Completion, CompletionQueue, ConnectOptions, Connection, Context, Device, Endpoint,
    Listener, MemoryRegion, ProtectionDomain, Psn, QpKind, QpOptions, Qpn, QueuePair, RecvRequest,
    RemoteAddr, SendOp, SendRequest, Sge, WcStatus,
};
