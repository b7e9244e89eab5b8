//! RoCEv2 over UDP sockets: the [`Port`](roce_port::Port) that needs no
//! privilege and runs on any interface.
//!
//! A [`UdpPort`] has one socket for each activated address and one for each multicast group it has
//! joined, all bound to UDP port 4791. These sockets receive all packets. A flow, which is a pair
//! of destination and source port, sends from a connected socket of its own. If there are more
//! flows than [`UdpPortConfig::flow_sockets`], the others send from the socket of their address.
//!
//! Segmentation offload makes the sockets fast in both directions. Consecutive packets of one
//! length to one destination leave as one datagram that the kernel segments as late as possible
//! (`UDP_SEGMENT`). A receive returns consecutive datagrams in one buffer (`UDP_GRO`). The kernel
//! sends long datagrams of RC requests without a copy. The port reuses their memory when the peer
//! has acknowledged them.
//!
//! # Segmentation and the ICRC
//!
//! The ICRC covers the identification field of the IPv4 header, which a socket neither sets nor
//! sees. The port still knows its value. An *unconnected* socket that forbids fragmentation sends
//! every datagram with identification 0. A *connected* socket counts up by one for each datagram,
//! from a start that the port learns. In both cases, the kernel gives segment `i` of a segmented
//! datagram the datagram's identification plus `i`. So the port fixes a packet's datagram and index
//! when it lends the buffer for the packet, and never changes them afterwards.
//!
//! # Layout
//!
//! - `queue`: packets waiting to be sent, joined into datagrams (no system calls).
//! - `kept`: memory of packets that are sent without a copy, and when it can be reused (no system
//!   calls).
//! - `flow`: the connected sockets of flows.
//! - `socket`: the socket of an address, which sends the queue and receives.
//! - `prepare`: the options of sockets that send.
//! - `share`: lets several processes share port 4791 of one address.
//! - `port`: the [`UdpPort`], which puts sockets behind the `Port` trait.
//! - `sys`: the system calls, and all the unsafe code of the crate.

mod bind;
mod check;
mod config;
mod counters;
mod flow;
mod kept;
mod port;
mod prepare;
mod queue;
mod share;
mod socket;
mod sys;

pub use check::{PortCheck, Refusal};
pub use config::{SocketOffer, UdpPortConfig, UdpSplice};
pub use counters::{TxDrop, UdpCounters};
pub use port::UdpPort;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use share::hostile;
pub use share::{ClaimError, Holder, PartClaim, PartClaimer, PeerWatch, ServiceClaim, is_served};
pub use sys::turns::prefer_short_turns;

/// The UDP port of RoCEv2. It is the destination port of every packet, as RoCEv2 Annex A17.3.2.2
/// prescribes. It is also the source port of packets that don't leave from a flow's socket; a
/// sender may choose any source port.
pub const ROCE_UDP_PORT: u16 = roce_wire::UDP_PORT;
