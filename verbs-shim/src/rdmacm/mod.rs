//! `librdmacm.so.1`: the C ABI of the connection manager on this stack.
//!
//! - [`table`] finds what C means by a pointer, or nothing: an object that was destroyed is
//!   an error, not an access to freed memory.
//! - [`id`] has the IDs, [`resolve`] gives them addresses, [`connect`] and [`accept`] make
//!   connections, [`endpoint`] does several steps at once.
//! - [`arrival`] takes what the connection manager tells, and puts it into the queue of an
//!   event [`channel`]; [`event`] works it off when C asks for it.

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
