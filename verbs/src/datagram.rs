//! Datagrams: address handles, destinations and headers. QPs of kind
//! [`QpKind::Ud`](crate::QpKind::Ud) send and receive them, through methods of
//! [`QueuePair`](crate::QueuePair).

pub use crate::context::AddressOptions;
pub use crate::qp::datagram::DatagramHeader;
pub use roce_stack::{
    AddressError, AddressHandle, DatagramSource, Destination, MulticastError, NetworkHeader,
};
