//! The headers of datagrams: one before what goes over the kernel's UDP sockets, and one before
//! what goes over UD QPs. Numbers are big-endian.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The longest header in bytes.
pub const MAX_HEADER_LEN: usize = 28;

/// Marks what rsockets send over UDP sockets.
const TAG: u32 = 0x5555_5555;

/// Operations of a [`UdpHeader`].
const DATA: u8 = 0;
const CONTROL: u8 = 7;

/// The bits of a queue pair number.
const QPN: u32 = 0x00ff_ffff;

/// The version of IP, in all headers.
const V4: u8 = 4;
const V6: u8 = 6;

/// The header of a message between the kernel's UDP sockets: tag (4 bytes), version of IP (1),
/// operation (1), length of the header (1), zero (1), QPN in the lower 24 bits (4), and the
/// sender's IP address (4 or 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// The purpose of the message.
    pub operation: Operation,
    /// The UD QP that the sender of the message has at its address, below 2^24.
    pub qpn: u32,
    /// The sender's address.
    pub address: IpAddr,
}

/// The purpose of a message between UDP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The bytes after the header are a datagram. The sender wants to know the receiver's QPN.
    Data,
    /// An answer, so that the receiver knows the sender's QPN. Nothing follows the header.
    Control,
}

/// The header of a datagram between UD QPs: version of IP (1 byte), length of the header (1), and
/// the sender's address: port (2) and IPv4 address (4), or port (2), flow information (4) and IPv6
/// address (16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdHeader {
    /// The address of the sender's socket. The scope of an IPv6 address is 0.
    pub source: SocketAddr,
}

/// Why bytes do not begin with a header.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatagramError {
    /// They are too short.
    Short {
        /// Their length in bytes.
        len: usize,
        /// The length that the header has at least.
        needed: usize,
    },
    /// The tag is another.
    Tag(u32),
    /// The version of IP is neither 4 nor 6.
    Version(u8),
    /// The length of the header is not that of its version of IP.
    Length {
        /// The version of IP.
        version: u8,
        /// The length that the header states.
        stated: u8,
        /// The length that it has.
        right: u8,
    },
    /// The operation is unknown.
    Operation(u8),
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len, needed } => {
                write!(f, "{len} bytes, but the header alone has {needed}")
            }
            Self::Tag(tag) => write!(
                f,
                "tag {tag:#010x}, but that of rsockets is {TAG:#010x}: the peer's program does not \
                 use rsockets"
            ),
            Self::Version(version) => write!(f, "version {version} of IP, which is {V4} or {V6}"),
            Self::Length {
                version,
                stated,
                right,
            } => write!(
                f,
                "a header of {stated} bytes for IPv{version}, which has {right}"
            ),
            Self::Operation(operation) => write!(
                f,
                "operation {operation}, but there are {DATA} (data) and {CONTROL} (control)"
            ),
        }
    }
}

impl fmt::Debug for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DatagramError {}

/// The bytes of an encoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBytes {
    bytes: [u8; MAX_HEADER_LEN],
    len: usize,
}

impl HeaderBytes {
    fn new() -> Self {
        Self {
            bytes: [0; MAX_HEADER_LEN],
            len: 0,
        }
    }

    /// Appends bytes. All headers fit.
    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..][..part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

impl std::ops::Deref for HeaderBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl UdpHeader {
    /// The length with an address of this kind, in bytes.
    pub const fn len_for(address: IpAddr) -> usize {
        match address {
            IpAddr::V4(_) => 16,
            IpAddr::V6(_) => 28,
        }
    }

    /// The bytes. A QPN of more than 24 bits is cut.
    pub fn encode(&self) -> HeaderBytes {
        let operation = match self.operation {
            Operation::Data => DATA,
            Operation::Control => CONTROL,
        };
        let len = Self::len_for(self.address) as u8;
        let mut bytes = HeaderBytes::new();
        bytes.push(&TAG.to_be_bytes());
        bytes.push(&[version_of(self.address), operation, len, 0]);
        bytes.push(&(self.qpn & QPN).to_be_bytes());
        match self.address {
            IpAddr::V4(ip) => bytes.push(&ip.octets()),
            IpAddr::V6(ip) => bytes.push(&ip.octets()),
        }
        bytes
    }

    /// The header at the start of a message, and the bytes after it.
    ///
    /// # Errors
    /// See [`DatagramError`].
    pub fn parse(message: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let (fixed, rest) = split::<12>(message, 16, message.len())?;
        let [
            t0,
            t1,
            t2,
            t3,
            version,
            operation,
            stated,
            _,
            q0,
            q1,
            q2,
            q3,
        ] = *fixed;
        let tag = u32::from_be_bytes([t0, t1, t2, t3]);
        if tag != TAG {
            return Err(DatagramError::Tag(tag));
        }
        let (address, data): (IpAddr, _) = match version_with(version, stated, [16, 28])? {
            Version::V4 => {
                let (ip, data) = split::<4>(rest, 16, message.len())?;
                (Ipv4Addr::from(*ip).into(), data)
            }
            Version::V6 => {
                let (ip, data) = split::<16>(rest, 28, message.len())?;
                (Ipv6Addr::from(*ip).into(), data)
            }
        };
        let operation = match operation {
            DATA => Operation::Data,
            CONTROL => Operation::Control,
            unknown => return Err(DatagramError::Operation(unknown)),
        };
        let header = Self {
            operation,
            qpn: u32::from_be_bytes([q0, q1, q2, q3]) & QPN,
            address,
        };
        Ok((header, data))
    }
}

impl UdHeader {
    /// The length with an address of this kind, in bytes.
    pub const fn len_for(address: IpAddr) -> usize {
        match address {
            IpAddr::V4(_) => 8,
            IpAddr::V6(_) => 24,
        }
    }

    /// The bytes.
    pub fn encode(&self) -> HeaderBytes {
        let ip = self.source.ip();
        let mut bytes = HeaderBytes::new();
        bytes.push(&[version_of(ip), Self::len_for(ip) as u8]);
        bytes.push(&self.source.port().to_be_bytes());
        match self.source {
            SocketAddr::V4(source) => bytes.push(&source.ip().octets()),
            SocketAddr::V6(source) => {
                bytes.push(&source.flowinfo().to_be_bytes());
                bytes.push(&source.ip().octets());
            }
        }
        bytes
    }

    /// The header at the start of a packet's payload, and the datagram after it.
    ///
    /// # Errors
    /// See [`DatagramError`].
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let (fixed, rest) = split::<4>(payload, 8, payload.len())?;
        let [version, stated, p0, p1] = *fixed;
        let port = u16::from_be_bytes([p0, p1]);
        let (source, data): (SocketAddr, _) = match version_with(version, stated, [8, 24])? {
            Version::V4 => {
                let (ip, data) = split::<4>(rest, 8, payload.len())?;
                ((Ipv4Addr::from(*ip), port).into(), data)
            }
            Version::V6 => {
                let (flow, rest) = split::<4>(rest, 24, payload.len())?;
                let (ip, data) = split::<16>(rest, 24, payload.len())?;
                let flow = u32::from_be_bytes(*flow);
                let source = SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, 0);
                (source.into(), data)
            }
        };
        Ok((Self { source }, data))
    }
}

enum Version {
    V4,
    V6,
}

/// The version of IP, if the header's length is right for it: one of `lengths`.
fn version_with(version: u8, stated: u8, lengths: [u8; 2]) -> Result<Version, DatagramError> {
    let (known, right) = match version {
        V4 => (Version::V4, lengths[0]),
        V6 => (Version::V6, lengths[1]),
        unknown => return Err(DatagramError::Version(unknown)),
    };
    if stated != right {
        return Err(DatagramError::Length {
            version,
            stated,
            right,
        });
    }
    Ok(known)
}

fn version_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { V4 } else { V6 }
}

/// The first `N` bytes and the others. `whole` is the length of the message that they belong to, and
/// `needed` that of its header.
fn split<const N: usize>(
    bytes: &[u8],
    needed: usize,
    whole: usize,
) -> Result<(&[u8; N], &[u8]), DatagramError> {
    let short = DatagramError::Short { len: whole, needed };
    bytes.split_first_chunk::<N>().ok_or(short)
}
