//! The host: connects to a controller, and reads and writes its namespaces.
//!
//! ```text
//! Host ── AdminQueue            connect, identify, properties, keep-alive
//!      └─ IoQueue, IoQueue, …   read, write, flush: one thread drives each
//!            └─ Queue           capsules out, responses in, over one QP
//! ```

mod admin;
mod buffer;
mod connect;
mod discovery;
mod durability;
mod io_queue;
mod keep_alive;
mod options;
mod queue;
mod slots;

pub use admin::NamespaceInfo;
pub use buffer::IoBuffer;
pub use connect::Host;
pub use discovery::discover;
pub use durability::{Extent, Reason};
pub use io_queue::{Done, IoQueue, Tag};
pub use options::HostOptions;
