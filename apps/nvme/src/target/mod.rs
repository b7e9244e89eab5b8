//! The target: offers namespaces in files or in memory.
//!
//! ```no_run
//! use roce_nvme::target::{Backing, Subsystem, Target, TargetOptions};
//!
//! # fn main() -> Result<(), roce_nvme::Error> {
//! let name = "nqn.2014-08.org.nvmexpress:disk1".parse()?;
//! let subsystem = Subsystem::new(name).with(Backing::memory(1 << 30));
//! let target = Target::listen("10.0.0.1:4420".parse().unwrap(), subsystem, TargetOptions::default())?;
//! println!("listening at nvme://{}", target.address());
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! Target ── Acceptor            a thread: answers connection requests
//!        │    └─ Handshakes     connections that no host has confirmed yet
//!        └─ Queue, Queue, …     a thread for each connection
//!             ├─ Session        decides what to do with each command (protocol, without I/O)
//!             ├─ Arena          memory for the data of commands
//!             └─ Storage, …     the namespaces, which all queues share
//! ```

mod arena;
mod handshakes;
mod listen;
mod options;
pub mod protocol;
mod queue;
mod shared;
mod storage;
mod subsystem;

pub use listen::Target;
pub use options::TargetOptions;
pub use shared::Snapshot;
pub use subsystem::{Backing, Subsystem};
