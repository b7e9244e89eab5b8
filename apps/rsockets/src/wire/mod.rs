//! What rsockets put on the wire: private data of the connection manager, elements of memory that
//! the ends write to each other, messages in immediate data, and headers of datagrams. docs/design/sockets.md describes them.

mod datagram;
mod element;
mod message;
mod private;

pub use datagram::{DatagramError, HeaderBytes, MAX_HEADER_LEN, Operation, UdHeader, UdpHeader};
pub use element::{ByteOrder, ELEMENT_LEN, Element, MAPPING_LEN, Mapping};
pub use message::{Control, Message, UnknownMessage};
pub(crate) use private::expressible;
pub use private::{CONNECT_DATA_LEN, ConnectData, ConnectDataError};

#[cfg(test)]
mod tests;
