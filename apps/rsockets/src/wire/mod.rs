//! The wire format of rsockets, which docs/design/sockets.md describes: private data of the connection
//! manager, elements, messages in immediate data, and headers of datagrams.

mod datagram;
mod element;
mod message;
mod private;

pub use datagram::{DatagramError, HeaderBytes, MAX_HEADER_LEN, Operation, UdHeader, UdpHeader};
pub use element::{ByteOrder, ELEMENT_LEN, Element, MAPPING_LEN, Mapping};
pub use message::{Control, Message, UnknownMessage};
pub(crate) use private::round_down_mappings;
pub use private::{CONNECT_DATA_LEN, ConnectData, ConnectDataError};

#[cfg(test)]
mod tests;
