//! The private data of the IP service of Annex A11.

use core::net::{IpAddr, Ipv4Addr};

use super::path::gid;
use super::put;
use crate::header::{be16, be32};
use crate::{Layer, ParseError};

/// The IP addresses and the source port of a request: the first 36 bytes of the private data of a
/// REQ or SIDR_REQ whose service ID names a port (Annex A11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpService {
    /// The port of the requester.
    pub source_port: u16,
    /// The address of the requester.
    pub source: IpAddr,
    /// The address of the recipient, of the same family.
    pub destination: IpAddr,
}

impl IpService {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 36;

    /// Reads the IP service data from the first [`IpService::LEN`] bytes.
    ///
    /// # Errors
    /// If there are fewer bytes, if the version is not 0, or if the IP version is not 4 or 6.
    // rule: A11-private-data
    pub fn parse(bytes: &[u8]) -> Result<IpService, ParseError> {
        let Some(b) = bytes.first_chunk::<{ IpService::LEN }>() else {
            return Err(ParseError::truncated(Layer::Cm, bytes.len(), Self::LEN));
        };
        let wrong = |field, found: u8, expected| {
            ParseError::unsupported(Layer::Cm, field, found.into(), expected)
        };
        // rule: A11-version
        if b[0] != 0 {
            return Err(wrong("ip cm version", b[0], "0"));
        }
        let (source, destination) = match b[1] >> 4 {
            4 => (v4(b, 4), v4(b, 20)),
            6 => (v6(b, 4), v6(b, 20)),
            other => return Err(wrong("ip version", other, "4 or 6")),
        };
        Ok(IpService {
            source_port: be16(b, 2),
            source,
            destination,
        })
    }

    /// The bytes on the wire.
    pub fn to_bytes(self) -> [u8; IpService::LEN] {
        let mut b = [0; IpService::LEN];
        b[1] = if self.source.is_ipv4() {
            4 << 4
        } else {
            6 << 4
        };
        put(&mut b, 2, self.source_port.to_be_bytes());
        for (address, at) in [(self.source, 4), (self.destination, 20)] {
            match address {
                IpAddr::V4(v4) => put(&mut b, at + 12, v4.octets()),
                IpAddr::V6(v6) => put(&mut b, at, v6.octets()),
            }
        }
        b
    }
}

/// The IPv4 address in the last four of the 16 bytes at `at`.
fn v4(b: &[u8; IpService::LEN], at: usize) -> IpAddr {
    Ipv4Addr::from(be32(b, at + 12)).into()
}

fn v6(b: &[u8; IpService::LEN], at: usize) -> IpAddr {
    IpAddr::V6(gid(b, at))
}
