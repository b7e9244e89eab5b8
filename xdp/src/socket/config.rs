//! How sockets are made.

use std::time::Duration;

use crate::queue::QueueConfig;
use crate::umem::{ROOM_FOR_HEADERS, RX_PIECE_BYTES};

/// Whether the driver is to read and write frames in our memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// If it can; else the kernel copies.
    #[default]
    Auto,
    /// It must, or the sockets fail to open.
    Require,
    /// The kernel copies.
    Off,
}

/// Preferred busy-polling: the driver's work is done in our system calls and not by
/// interrupts, which it defers as long as we call (`SO_PREFER_BUSY_POLL`). It takes
/// `napi_defer_hard_irqs` and `gro_flush_timeout` of the interface to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long one call may poll (`SO_BUSY_POLL`).
    pub time: Duration,
    /// Most packets that one call handles (`SO_BUSY_POLL_BUDGET`).
    pub budget: u32,
}

/// How the sockets of one interface are made.
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
    /// Whether the driver is to read and write frames in our memory.
    pub zero_copy: ZeroCopy,
    /// Whether frames may come in several pieces. Wanted as soon as the link's MTU lets a
    /// frame be longer than [`RX_PIECE_BYTES`](crate::umem::RX_PIECE_BYTES): without, the
    /// kernel drops such frames in silence.
    pub multi_buffer: bool,
    /// Whether the first queue's memory is shared by the others. Otherwise each registers
    /// all of it for itself, which takes more of the kernel's.
    pub share_memory: bool,
    /// Busy-polling, if wanted.
    pub busy_poll: Option<BusyPoll>,
    /// How long to go on if a queue is still held by a socket that was closed a moment ago.
    pub patience: Duration,
}

impl SocketConfig {
    /// For queue 0 of an interface with this MTU in bytes; the rest as it suits most.
    pub fn new(interface: &str, interface_index: u32, mtu: usize) -> Self {
        // Ethernet, one VLAN tag.
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
