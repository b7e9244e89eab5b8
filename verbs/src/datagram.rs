//! Datagrams: address handles, destinations and headers. The QPs that send datagrams are of kind
//! [`QpKind::Ud`](crate::QpKind::Ud); [`QueuePair`](crate::QueuePair) has their methods.

pub use crate::context::AddressOptions;
pub use roce_stack::{
    AddressError, AddressHandle, DatagramSource, Destination, MulticastError, NetworkHeader,
};
