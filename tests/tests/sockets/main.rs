//! Sockets over RDMA: rdma-core's programs, unmodified, on this stack's librdmacm, to rdma-core's own
//! library in the lab's guest and to each other.
//!
//! `cargo test -p roce-tests --test sockets soft_roce::` runs some of them.

mod case;
mod datagrams;
mod files;
mod hosts;
mod ours;
mod preload;
mod soft_roce;
mod wire;

use std::time::Duration;

/// Timeout of a step.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between looks at a state.
const INTERVAL: Duration = Duration::from_millis(10);
