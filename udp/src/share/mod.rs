//! Several processes behind one address, as several programs are behind one RNIC.
//!
//! The sockets of UDP port 4791 at one address are a `SO_REUSEPORT` group. Socket `p` of
//! the group is for the QPs whose numbers lie in [part](roce_stack::QpnPart) `p`: a program
//! in the kernel reads the destination QPN of what arrives and picks the socket, and a
//! filter at each socket lets nothing else in. A process reads from the socket of its own
//! part only.
//!
//! # Why every process holds every socket
//!
//! When a socket of a group is closed, the kernel moves the last one into its place, and
//! from then on packets would go wrong. So no socket may be closed while one with a greater
//! number is open. Each process holds descriptors of all sockets from the first to its own
//! at least: what it got from one that was there before, and what it added at the end.
//! Whoever dies, however that happens, closes for good only sockets that nobody else holds;
//! these are the last ones, and none that anybody needs moves.
//!
//! # Who is there
//!
//! Names of abstract Unix sockets tell. They are in the network namespace, as the port is,
//! and vanish with the process:
//!
//! - a part of an interface belongs to whoever has bound its name ([`PartClaim`]);
//! - a place in the group of an address belongs to whoever listens at its name, and hands
//!   the group's sockets to those who come later (`keeper`);
//! - who changes a group has bound a name that is its lock (`join`);
//! - who takes management datagrams, and requests for which services, has bound names that
//!   say so, from which the program in the kernel is made (`table`).
//!
//! `docs/adr/0013-one-port-many-processes.md` has the reasons, and what was measured;
//! `docs/adr/0015-management-datagrams.md` those of QP1.

mod addressee;
mod claim;
mod group;
mod holder;
mod household;
mod join;
mod keeper;
mod member;
mod message;
mod names;
mod service_claim;
mod services;
mod sockets;
mod steer;
mod table;
mod watch;

pub use claim::{PartClaim, PartClaimer};
pub use holder::Holder;
pub(crate) use join::join;
pub(crate) use member::{Gets, Member};
pub use service_claim::{ClaimError, ServiceClaim};
pub(crate) use services::Services;
pub use services::is_served;
pub use watch::PeerWatch;
