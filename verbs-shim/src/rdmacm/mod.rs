//! `librdmacm.so.1`: the C ABI of the connection manager on this stack.
//!
//! [`roce_verbs::rdma_cm`] has the IDs, their states and their events. These modules convert
//! arguments and results, and keep what only C sees:
//!
//! - [`table`] looks up the objects of C's pointers. Using a destroyed object is an error, not an
//!   access to freed memory.
//! - [`id`] fills in the structure of an ID, [`event`] that of an event, [`attributes`] those of a QP.

pub(crate) mod accept;
pub(crate) mod addrinfo;
pub(crate) mod attributes;
mod channel;
pub(crate) mod connect;
mod device;
pub(crate) mod endpoint;
pub(crate) mod event;
mod exit;
mod id;
pub(crate) mod lifetime;
pub(crate) mod multicast;
pub(crate) mod option;
pub(crate) mod qp;
mod queues;
pub(crate) mod resolve;
pub(crate) mod sockaddr;
pub(crate) mod srq;
mod table;
