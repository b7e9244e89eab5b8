//! Identifiers of connections, listeners and paths.

use std::net::IpAddr;

/// The two ends of a MAD's path, as seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// This end's address.
    pub local: IpAddr,
    /// The peer's address, of the same family.
    pub remote: IpAddr,
}

/// A connection, or the lookup of a datagram service, on either side: the local communication ID,
/// or the request ID of SIDR. Never 0. Its top 7 bits are the number of the agent's
/// [`QpnRange`](crate::QpnRange), so the answers of peers show which process of a host they are
/// for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u32);

impl ConnectionId {
    /// The ID as on the wire.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) u32);

impl ListenerId {
    /// A number that no other listener of the agent has or ever had.
    pub const fn get(self) -> u32 {
        self.0
    }
}
