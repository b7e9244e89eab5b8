//! Datagrams: address handles, and what goes with a datagram. The QPs that send them are of kind
//! [`QpKind::Ud`](crate::QpKind::Ud); [`QueuePair`](crate::QueuePair) has their methods.

pub use crate::context::AddressOptions;
pub use roce_stack::{
    AddressError, AddressHandle, DatagramSource, Destination, MulticastError, NetworkHeader,
};
