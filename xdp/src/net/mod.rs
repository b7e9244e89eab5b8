//! Routes, neighbours, addresses, and the headers from Ethernet to UDP, which the kernel's stack
//! handles for a socket but not for a raw frame.
//!
//! ```text
//!              header_for(path)               poll, fd, next_deadline
//!                      │                                │
//!   ┌ Net ─────────────▼────────────────────────────────▼─────────────┐
//!   │ Core: link, addresses, paths ──requests──► Netlink ──► kernel   │
//!   │       and next hops          ◄──events───          ◄──          │
//!   └──────────────────▲──────────────────────────────────────────────┘
//!                      │
//!                parse(frame)
//! ```
//!
//! # Use
//!
//! - [`Net::open`] follows one interface. Wait for [`Net::fd`] and [`Net::next_deadline`] along
//!   with other descriptors and deadlines, and then call [`Net::poll`]. It returns whether the MTU,
//!   addresses or neighbours have changed, and fails if the interface is gone.
//! - To send: get the header from [`Net::header_for`], check the length against
//!   [`Template::max_transport`], and [`Template::write`] the header in front of the transport
//!   packet. If the header waits for a next hop, pass the frame to a [`Waiting`], and call
//!   [`Waiting::release`] after every change of neighbours and at [`Waiting::next_deadline`].
//! - Pass received frames to [`Net::parse`].
//!
//! # Division of labour
//!
//! The kernel chooses the route of a packet and resolves neighbours. This module does not read and
//! interpret routes. It requests the route from the kernel once for each pair of source and
//! destination (`RTM_GETROUTE`), as for a socket that is bound to the interface, so that the kernel
//! applies its rules, metrics, tables and next hop objects as usual. The kernel also does ARP and
//! neighbour discovery: this module reports that a neighbour is in use (`NTF_USE`), and follows the
//! changes of the kernel's table. See docs/adr/0011-netlink.md.
//!
//! This module makes one decision itself: packets for another interface of the same host leave over
//! the link if their destination is within the link's prefix. The kernel would deliver them
//! locally, and does not answer ARP between its own interfaces. Such a packet arrives only if a
//! cable or switch connects the two interfaces.
//!
//! # Bounds
//!
//! At most [`CoreConfig::max_paths`] paths are remembered, and about as many next hops. [`Waiting`]
//! bounds the waiting frames. A neighbour is requested at most once a second. Once a second, at
//! most 64 neighbours in use are requested. Sending a packet on a known path allocates nothing.
//!
//! # Layout
//!
//! - `core`: the state machine, without I/O; `facts` and `event` are its inputs.
//! - `template`: headers to send. `checksum`: their checksums. `frame`: received frames. `waiting`:
//!   frames that wait for a next hop.
//! - `netlink`: requests and events as the kernel's messages. `handle`: [`Net`].
//! - `reasons`: why a packet is not sent or not accepted, and counters.

mod checksum;
mod core;
mod event;
mod facts;
mod frame;
mod handle;
pub(crate) mod netlink;
mod reasons;
mod template;
mod waiting;

pub use core::{Changes, Core, CoreConfig, Header, PathIndex, Resolution};
pub use event::{Event, NeighbourState, PathKey, Request, Route};
pub use facts::{Link, Mac, OtherAddress, OwnAddress, Priority, Tagging, VlanDevice};
pub use frame::Received;
pub use handle::Net;
pub use reasons::{NetCounters, Refusal, RxDrop, WaitDrop};
pub use template::{DEFAULT_HOP_LIMIT, MAX_HEADER_LEN, PacketFields, Template};
pub use waiting::{MAX_WAIT, MAX_WAITING, MAX_WAITING_PER_HOP, Outcome, Waiting};
