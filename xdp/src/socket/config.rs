//! The configuration of sockets.

use std::time::Duration;

use crate::queue::QueueConfig;
use crate::umem::{ROOM_FOR_HEADERS, RX_PIECE_BYTES};

/// Whether the driver reads and writes frames in our memory.
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

/// Preferred busy-polling: the driver's work is done in our system calls rather than in interrupts,
/// which it defers as long as we keep polling (`SO_PREFER_BUSY_POLL`). It requires
/// `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// The longest time that one call may poll (`SO_BUSY_POLL`).
    pub time: Duration,
    /// The most packets that one call handles (`SO_BUSY_POLL_BUDGET`).
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
    /// How much memory each queue has.
    pub memory: QueueConfig,
    /// Whether the driver reads and writes frames in our memory.
    pub zero_copy: ZeroCopy,
    /// Whether frames may have several pieces. Needed if the link's MTU allows frames longer than
    /// [`RX_PIECE_BYTES`](crate::umem::RX_PIECE_BYTES): without it, the kernel drops such frames
    /// silently.
    pub multi_buffer: bool,
    /// Whether the other queues share the first queue's memory. Otherwise each registers all of it
    /// for itself, which takes more kernel memory.
    pub share_memory: bool,
    /// Busy-polling, if wanted.
    pub busy_poll: Option<BusyPoll>,
    /// How long to retry if a queue is still held by a socket that was closed a moment ago.
    pub patience: Duration,
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
            multi_buffer: mtu + ROOM_FOR_HEADERS > RX_PIECE_BYTES,
            share_memory: true,
            busy_poll: None,
            patience: Duration::from_secs(3),
        }
    }
}
