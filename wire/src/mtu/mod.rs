//! The path MTU.

use core::fmt;

/// The largest payload of one packet on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes: the largest that fits in Ethernet's 1500.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes: needs a link MTU of about 4200 or more.
    Mtu4096,
}

impl PathMtu {
    /// All of them, in ascending order.
    pub const ALL: [PathMtu; 5] = [
        PathMtu::Mtu256,
        PathMtu::Mtu512,
        PathMtu::Mtu1024,
        PathMtu::Mtu2048,
        PathMtu::Mtu4096,
    ];

    /// Bytes of payload.
    #[inline]
    pub const fn bytes(self) -> usize {
        128 << self.code()
    }

    /// The MTU of exactly `bytes` bytes, if there is one.
    pub const fn from_bytes(bytes: usize) -> Option<PathMtu> {
        match bytes {
            256 => Some(PathMtu::Mtu256),
            512 => Some(PathMtu::Mtu512),
            1024 => Some(PathMtu::Mtu1024),
            2048 => Some(PathMtu::Mtu2048),
            4096 => Some(PathMtu::Mtu4096),
            _ => None,
        }
    }

    /// The largest MTU of at most `max_payload_bytes` bytes; `None` below 256.
    pub const fn largest_fitting(max_payload_bytes: usize) -> Option<PathMtu> {
        match max_payload_bytes {
            0..256 => None,
            256..512 => Some(PathMtu::Mtu256),
            512..1024 => Some(PathMtu::Mtu512),
            1024..2048 => Some(PathMtu::Mtu1024),
            2048..4096 => Some(PathMtu::Mtu2048),
            4096.. => Some(PathMtu::Mtu4096),
        }
    }

    /// The code in verbs (`enum ibv_mtu`) and in management datagrams: 1 for 256 bytes to 5 for
    /// 4096.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            PathMtu::Mtu256 => 1,
            PathMtu::Mtu512 => 2,
            PathMtu::Mtu1024 => 3,
            PathMtu::Mtu2048 => 4,
            PathMtu::Mtu4096 => 5,
        }
    }

    /// The MTU with this code; `None` outside of 1 to 5.
    pub const fn from_code(code: u8) -> Option<PathMtu> {
        match code {
            1 => Some(PathMtu::Mtu256),
            2 => Some(PathMtu::Mtu512),
            3 => Some(PathMtu::Mtu1024),
            4 => Some(PathMtu::Mtu2048),
            5 => Some(PathMtu::Mtu4096),
            _ => None,
        }
    }
}

impl fmt::Display for PathMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests;
