//! Memory of the peer.

use core::fmt;
use core::str::FromStr;

/// Memory of the peer: an address and a remote key. Applications exchange it by a channel of their
/// own, for instance as text:
///
/// ```
/// # use roce_stack::RemoteAddr;
/// let place = RemoteAddr { addr: 0x7f00_1000, rkey: 0x1234 };
/// assert_eq!(place.to_string(), "0x7f001000/0x1234");
/// assert_eq!("0x7f001000/0x1234".parse(), Ok(place));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RemoteAddr {
    /// Virtual address in the peer's region.
    pub addr: u64,
    /// The region's remote key.
    pub rkey: u32,
}

impl RemoteAddr {
    /// The address `bytes` further on, under the same key. Wraps at the end of the address space;
    /// the peer checks that it lies within its region.
    #[inline]
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self {
            addr: self.addr.wrapping_add(bytes),
            ..self
        }
    }
}

impl fmt::Display for RemoteAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.addr, self.rkey)
    }
}

/// A text that is not a [`RemoteAddr`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseRemoteAddrError(String);

impl fmt::Display for ParseRemoteAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a remote address: expected ADDRESS/KEY in hexadecimal, as in \
             0x7f001000/0x1234",
            self.0
        )
    }
}

impl fmt::Debug for ParseRemoteAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for ParseRemoteAddrError {}

impl FromStr for RemoteAddr {
    type Err = ParseRemoteAddrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let (addr, rkey) = text.split_once('/')?;
            let (addr, rkey) = (addr.strip_prefix("0x")?, rkey.strip_prefix("0x")?);
            Some(Self {
                addr: u64::from_str_radix(addr, 16).ok()?,
                rkey: u32::from_str_radix(rkey, 16).ok()?,
            })
        };
        parsed().ok_or_else(|| ParseRemoteAddrError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::RemoteAddr;

    #[test]
    fn only_a_whole_address_parses() {
        let largest = RemoteAddr {
            addr: u64::MAX,
            rkey: u32::MAX,
        };
        assert_eq!(largest.to_string().parse(), Ok(largest));
        for text in [
            "",
            "/",
            "0x1",
            "0x1/",
            "1/2",
            "0x1/0x100000000",
            "0x1/0x2/0x3",
            "0x/0x",
        ] {
            let error = text.parse::<RemoteAddr>().expect_err(text);
            assert!(error.to_string().contains("0x7f001000/0x1234"), "{error}");
        }
    }
}
