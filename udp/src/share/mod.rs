//! Lets several processes share one address, as several programs share one RNIC.
//!
//! The sockets of UDP port 4791 at one address are a `SO_REUSEPORT` group. Socket `p` of the group
//! is for the QPs whose numbers lie in [part](roce_stack::QpnRange) `p`. A program in the kernel
//! reads the destination QPN of each packet and picks the socket, and a filter at each socket
//! rejects all other packets. A process reads only from the socket of its own part.
//!
//! # Why every process holds every socket
//!
//! When a socket of a group is closed, the kernel gives its number to the last socket of the group,
//! and packets would go to the wrong socket from then on. So no socket may be closed while one with
//! a greater number is open. Each process holds descriptors of all sockets from the first to its
//! own, and possibly more: those it received from an earlier member, and those it added at the end.
//! When a process ends, for whatever reason, the kernel closes only the sockets that no other
//! process holds. These are the last ones, so no socket in use gets another number.
//!
//! # How processes find each other
//!
//! The names of abstract Unix sockets show which processes share an address. The names belong to
//! the network namespace, as the port does, and vanish with the process:
//!
//! - each QPN range (*part*) has one owner per interface: the process that has bound its name
//!   ([`PartClaim`]);
//! - the socket of a part at an address belongs to the process that listens at the member's name
//!   and hands the group's sockets to later members (`keeper`);
//! - a process that changes a group has bound the name of the group's lock (`join`);
//! - a process that receives management datagrams has bound a name for that, and one more for each
//!   service whose requests it receives. The BPF program is made from these names (`table`).
//!
//! `docs/adr/0013-one-port-many-processes.md` has the reasons and the measurements;
//! `docs/adr/0015-management-datagrams.md` has those for QP1.

mod addressee;
mod claim;
mod group;
mod holder;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod join;
mod keeper;
mod member;
mod message;
mod names;
mod offer;
mod owned_names;
mod process_sockets;
mod service_claim;
mod services;
mod sockets;
mod steer;
mod table;
mod watch;

pub use claim::{PartClaim, PartClaimer};
pub use holder::Holder;
pub(crate) use join::join;
pub(crate) use member::{Member, Recipient};
pub(crate) use offer::{answer_over, offer};
pub(crate) use process_sockets::{Namespace, namespace};
pub use service_claim::{ClaimError, ServiceClaim};
pub(crate) use services::Services;
pub use services::is_served;
pub use watch::PeerWatch;
