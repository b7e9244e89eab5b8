//! What a port is made from.

use crate::net::CoreConfig;
use crate::program::{AttachMode, RedirectConfig};
use crate::socket::SocketConfig;

/// Ethernet's header and a tag, in bytes.
const LINK_HEADERS: usize = 14 + 4;

/// What an [`XdpPort`](crate::XdpPort) is made from.
#[derive(Clone, Debug)]
pub struct XdpPortConfig {
    /// The interface, its queues and their memory.
    pub sockets: SocketConfig,
    /// How the redirect program is to be attached.
    pub attach: AttachMode,
    /// What the program takes for ours.
    pub redirect: RedirectConfig,
    /// Tags, and how many paths are remembered.
    pub net: CoreConfig,
}

impl XdpPortConfig {
    /// The usual configuration for an interface with this MTU in bytes.
    pub fn new(interface: &str, interface_index: u32, mtu: usize) -> Self {
        Self {
            sockets: SocketConfig::new(interface, interface_index, mtu),
            attach: AttachMode::default(),
            redirect: RedirectConfig::default(),
            net: CoreConfig::default(),
        }
    }

    /// The longest IP packet that there is room for.
    pub(super) fn longest_ip(&self) -> usize {
        self.sockets
            .memory
            .max_frame_bytes
            .saturating_sub(LINK_HEADERS)
    }
}
