//! The headers of datagrams, one for the kernel's UDP sockets and one for UD QPs. Numbers are
//! big-endian.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Maximum length of a header in bytes.
pub const MAX_HEADER_LEN: usize = 28;

/// Marks messages of rsockets on UDP sockets.
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
    /// The QPN of the sender's UD QP, below 2^24.
    pub qpn: u32,
    /// The sender's address.
    pub address: IpAddr,
}

/// The purpose of a message between UDP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A datagram follows the header. The sender asks for the receiver's QPN.
    Data,
    /// An answer that carries the sender's QPN. Nothing follows the header.
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

/// Why bytes do not start with a valid header.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatagramError {
    /// They are too short.
    Short {
        /// Their length in bytes.
        len: usize,
        /// The minimum length of the header.
        needed: usize,
    },
    /// The tag is wrong.
    Tag(u32),
    /// The version of IP is neither 4 nor 6.
    Version(u8),
    /// The stated length is wrong for the version of IP.
    Length {
        /// The version of IP.
        version: u8,
        /// The stated length.
        stated: u8,
        /// The correct length.
        right: u8,
    },
    /// The operation is unknown.
    Operation(u8),
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len, needed } => {
                write!(
                    f,
                    "{len} bytes are too short for a header of {needed} bytes"
                )
            }
            Self::Tag(tag) => write!(
                f,
                "tag {tag:#010x} instead of {TAG:#010x}: the peer's program does not use rsockets"
            ),
            Self::Version(version) => write!(f, "IP version {version}, expected {V4} or {V6}"),
            Self::Length {
                version,
                stated,
                right,
            } => write!(
                f,
                "header length {stated} for IPv{version}, expected {right}"
            ),
            Self::Operation(operation) => write!(
                f,
                "operation {operation}, expected {DATA} (data) or {CONTROL} (control)"
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

    /// Appends bytes. Every header fits.
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
    /// The length in bytes for an address family.
    pub const fn len_for(address: IpAddr) -> usize {
        match address {
            IpAddr::V4(_) => 16,
            IpAddr::V6(_) => 28,
        }
    }

    /// Encodes the header. The QPN is truncated to 24 bits.
    pub fn encode(&self) -> HeaderBytes {
        let operation = match self.operation {
            Operation::Data => DATA,
            Operation::Control => CONTROL,
        };
        let len = Self::len_for(self.address) as u8;
        let mut bytes = HeaderBytes::new();
        bytes.push(&TAG.to_be_bytes());
        bytes.push(&[ip_version(self.address), operation, len, 0]);
        bytes.push(&(self.qpn & QPN).to_be_bytes());
        match self.address {
            IpAddr::V4(ip) => bytes.push(&ip.octets()),
            IpAddr::V6(ip) => bytes.push(&ip.octets()),
        }
        bytes
    }

    /// Parses the header at the start of a message. Returns it and the bytes after it.
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
        let (address, data): (IpAddr, _) = match check_version(version, stated, [16, 28])? {
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
    /// The length in bytes for an address family.
    pub const fn len_for(address: IpAddr) -> usize {
        match address {
            IpAddr::V4(_) => 8,
            IpAddr::V6(_) => 24,
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> HeaderBytes {
        let ip = self.source.ip();
        let mut bytes = HeaderBytes::new();
        bytes.push(&[ip_version(ip), Self::len_for(ip) as u8]);
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

    /// Parses the header at the start of a packet's payload. Returns it and the datagram after it.
    ///
    /// # Errors
    /// See [`DatagramError`].
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let (fixed, rest) = split::<4>(payload, 8, payload.len())?;
        let [version, stated, p0, p1] = *fixed;
        let port = u16::from_be_bytes([p0, p1]);
        let (source, data): (SocketAddr, _) = match check_version(version, stated, [8, 24])? {
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

/// Checks the version of IP, and that the stated length is the one for it in `lengths` (IPv4, IPv6).
fn check_version(version: u8, stated: u8, lengths: [u8; 2]) -> Result<Version, DatagramError> {
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

fn ip_version(address: IpAddr) -> u8 {
    if address.is_ipv4() { V4 } else { V6 }
}

/// Splits off the first `N` bytes. For the error, `whole` is the length of the message and `needed` the
/// length of its header.
fn split<const N: usize>(
    bytes: &[u8],
    needed: usize,
    whole: usize,
) -> Result<(&[u8; N], &[u8]), DatagramError> {
    let short = DatagramError::Short { len: whole, needed };
    bytes.split_first_chunk::<N>().ok_or(short)
}
