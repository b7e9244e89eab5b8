//! RoCEv2 over UDP sockets: the [`Port`](roce_port::Port) that needs no
//! privilege and runs on any interface.
//!
//! A [`UdpPort`] has one socket for each address that was activated, and for each
//! multicast group that was joined, bound to UDP port 4791. What makes sockets fast is segmentation offload, in both
//! directions: consecutive packets of one length to one destination leave as one
//! datagram that the kernel cuts up as late as possible (`UDP_SEGMENT`), and what
//! arrives in a row is handed over in one piece (`UDP_GRO`).
//!
//! # What the ICRC has to do with it
//!
//! The ICRC covers the identification field of the IPv4 header, which a socket
//! neither sets nor sees. But it is known: an *unconnected* socket that forbids
//! fragmentation sends every datagram with identification 0, and the kernel gives
//! segment `i` of a segmented datagram identification `i`. So the place of a
//! packet in its datagram is part of what its ICRC covers, it is settled when
//! room for the packet is lent, and it is never changed afterwards.
//!
//! # Layout
//!
//! - `queue`: packets waiting to leave, joined into datagrams (no system calls).
//! - `socket`: one socket, its options, sending its queue and receiving.
//! - `share`: several processes behind one address.
//! - `port`: the [`UdpPort`], which puts sockets behind the `Port` trait.
//! - `sys`: the system calls; all the unsafe code of the crate.

mod bind;
mod check;
mod config;
mod counters;
mod port;
mod queue;
mod share;
mod socket;
mod sys;

pub use check::PortCheck;
pub use config::{SocketOffer, UdpPortConfig};
pub use counters::{TxDrop, UdpCounters};
pub use port::UdpPort;
pub use share::{ClaimError, Holder, PartClaim, PartClaimer, PeerWatch, ServiceClaim, is_served};
pub use sys::turns::prefer_short_turns;

/// The UDP port of RoCEv2, source and destination of all that a [`UdpPort`] sends
/// (RoCEv2 Annex A17.3.2 for the destination; the source is free).
pub const ROCE_UDP_PORT: u16 = roce_wire::UDP_PORT;

/// The MTU of the interface `name` in this network namespace, in bytes.
///
/// # Errors
/// If no interface has this name.
pub fn interface_mtu(name: &str) -> std::io::Result<usize> {
    sys::mtu::interface_mtu(name)
}
