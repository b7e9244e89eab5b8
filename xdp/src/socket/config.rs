//! The configuration of sockets.

use std::time::Duration;

use crate::queue::QueueConfig;
use crate::umem::{LINK_OVERHEAD_BYTES, RX_PIECE_BYTES};

/// Whether the driver reads and writes frames in user memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// If the driver supports it; otherwise the kernel copies.
    #[default]
    Auto,
    /// Always; otherwise opening the sockets fails.
    Require,
    /// Never: the kernel copies.
    Off,
}

/// Preferred busy-polling (`SO_PREFER_BUSY_POLL`): the driver works in this process's system calls
/// rather than in interrupts, which it defers as long as the process keeps polling. It requires
/// `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// The maximum time that one call polls (`SO_BUSY_POLL`).
    pub time: Duration,
    /// The maximum number of packets that one call handles (`SO_BUSY_POLL_BUDGET`).
    pub budget: u32,
}

/// The configuration of the sockets of one interface.
#[derive(Clone, Debug)]
pub struct SocketConfig {
    /// The interface's name, for messages.
    pub interface: String,
    /// Its index.
    pub interface_index: u32,
    /// The numbers of its queues, from 0; at least one.
    pub queues: Vec<u32>,
    /// The memory of each queue.
    pub memory: QueueConfig,
    /// Whether the driver reads and writes frames in user memory.
    pub zero_copy: ZeroCopy,
    /// Whether frames may have several pieces. Needed if the link's MTU allows frames longer than
    /// [`RX_PIECE_BYTES`](crate::umem::RX_PIECE_BYTES). Without this option, the kernel silently
    /// drops such frames.
    pub multi_buffer: bool,
    /// Whether the other queues share the first queue's registration of the memory. Otherwise, each
    /// queue registers all memory itself, which takes more kernel memory.
    pub share_memory: bool,
    /// Busy-polling; `None` switches it off.
    pub busy_poll: Option<BusyPoll>,
    /// The time to retry while a recently closed socket still holds a queue.
    pub bind_timeout: Duration,
}

impl SocketConfig {
    /// A configuration for queue 0 of an interface with this MTU in bytes, with defaults for the
    /// rest.
    pub fn new(interface: &str, interface_index: u32, mtu: usize) -> Self {
        // Ethernet header and one VLAN tag.
        let max_frame_bytes = mtu + 18;
        Self {
            interface: interface.to_owned(),
            interface_index,
            queues: vec![0],
            memory: QueueConfig::for_frames(max_frame_bytes),
            zero_copy: ZeroCopy::Auto,
            multi_buffer: mtu + LINK_OVERHEAD_BYTES > RX_PIECE_BYTES,
            share_memory: true,
            busy_poll: None,
            bind_timeout: Duration::from_secs(3),
        }
    }
}
