//! `librdmacm.so.1`: the C ABI of the connection manager on this stack.
//!
//! - [`table`] looks up C's pointers: using an object that was destroyed is an error, not an
//!   access to freed memory.
//! - [`id`] has the IDs, [`resolve`] gives them addresses, [`connect`] and [`accept`] make
//!   connections, [`endpoint`] does several steps at once.
//! - [`arrival`] puts the connection manager's events into the queue of an event [`channel`];
//!   [`event`] processes them when C asks.

pub(crate) mod accept;
pub(crate) mod addrinfo;
mod arrival;
pub(crate) mod attributes;
pub(crate) mod channel;
pub(crate) mod connect;
pub(crate) mod device;
pub(crate) mod endpoint;
pub(crate) mod event;
mod exit;
pub(crate) mod id;
pub(crate) mod multicast;
pub(crate) mod option;
mod path;
mod peer;
pub(crate) mod qp;
pub(crate) mod resolve;
mod sockaddr;
pub(crate) mod srq;
mod table;
