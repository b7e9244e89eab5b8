//! `librdmacm.so.1`: the C ABI of the connection manager on this stack.
//!
//! - [`table`] looks up the objects of C's pointers. Using a destroyed object is an error, not an
//!   access to freed memory.
//! - [`id`] has the IDs and their events, [`lifetime`] creates and destroys them, [`resolve`] binds
//!   them and resolves addresses, [`connect`] and [`accept`] establish connections, and [`endpoint`]
//!   does several of these steps in one call.
//! - [`arrival`] puts the connection manager's events into the queue of an event [`channel`];
//!   [`event`] returns them to the program after [`handle`] has handled them, and [`failure`] reports
//!   those of connections that were not made.

pub(crate) mod accept;
pub(crate) mod addrinfo;
mod arrival;
pub(crate) mod attributes;
mod channel;
pub(crate) mod connect;
mod device;
pub(crate) mod endpoint;
pub(crate) mod event;
mod exit;
mod failure;
mod handle;
mod id;
pub(crate) mod lifetime;
pub(crate) mod multicast;
pub(crate) mod option;
mod path;
mod peer;
pub(crate) mod qp;
mod queues;
pub(crate) mod resolve;
pub(crate) mod sockaddr;
pub(crate) mod srq;
mod table;
