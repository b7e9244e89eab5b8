//! What the kernel's stack does for a socket and nobody does for a frame: routes,
//! neighbours, addresses, and the headers from Ethernet to UDP.
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
//! - [`Net::open`] follows one interface. Wait for [`Net::fd`] and
//!   [`Net::next_deadline`] with everything else, and call [`Net::poll`] then; what it
//!   returns tells whether the MTU, addresses or neighbours have changed, and its error
//!   that the interface is gone.
//! - To send: [`Net::header_for`], check the length against
//!   [`Template::max_transport`], and [`Template::write`] the header in front of the
//!   transport packet. If the header waits for a next hop, give the frame to a
//!   [`Waiting`], and [`Waiting::release`] what waits after every change of neighbours
//!   and at [`Waiting::next_deadline`].
//! - What was received goes through [`Net::parse`].
//!
//! # Who knows what
//!
//! The kernel decides where a packet goes and who a neighbour is. Routes are not read
//! and interpreted here: the kernel is asked once for each pair of source and
//! destination (`RTM_GETROUTE`), as for a socket that is bound to the interface, so
//! that rules, metrics, several tables and next hop objects mean what they mean to it.
//! ARP and neighbour discovery are the kernel's, too: it is told that a neighbour is in
//! use (`NTF_USE`), and its table is followed. See docs/adr/0011-netlink.md.
//!
//! One thing is decided here: what is for another interface of the same host leaves by the
//! link if the link's prefix has it. The kernel would keep it, and answers no ARP between
//! its own interfaces; a cable or switch may join them all the same, and a frame gets there.
//!
//! # Bounds
//!
//! [`CoreConfig::max_paths`] paths are remembered and hardly more next hops; of frames
//! that wait see [`Waiting`]. A neighbour is asked for at most once a second, and at
//! most 64 of them at each look after those in use. Nothing is allocated for a packet
//! on a path that is known.
//!
//! # Layout
//!
//! - `core`: the state machine, without I/O; `facts` and `event` are what it is told.
//! - `template`: headers to be sent. `checksum`: theirs. `frame`: frames received. `waiting`: frames held.
//! - `netlink`: requests and events as the kernel's messages. `handle`: [`Net`].
//! - `reasons`: why something is not sent or not taken, and counters.

mod checksum;
mod core;
mod event;
mod facts;
mod frame;
mod handle;
mod netlink;
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
