//! The local addresses of a listener.

use std::fmt;
use std::net::IpAddr;

/// A set of local addresses: one, those of a family, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Addresses {
    /// One address.
    One(IpAddr),
    /// All addresses of IPv4.
    V4,
    /// All addresses of IPv6.
    V6,
    /// All addresses.
    All,
}

impl Addresses {
    /// Whether an address is in the set.
    pub fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::One(one) => one == address,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
            Self::All => true,
        }
    }

    /// Whether an address can be in both sets.
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::One(one), many) | (many, Self::One(one)) => many.contains(one),
            (Self::All, _) | (_, Self::All) => true,
            (one, other) => one == other,
        }
    }

    /// The address, if the set is a single one.
    pub fn one(self) -> Option<IpAddr> {
        match self {
            Self::One(address) => Some(address),
            _ => None,
        }
    }
}

impl From<IpAddr> for Addresses {
    fn from(address: IpAddr) -> Self {
        Self::One(address)
    }
}

/// A single address, or all for `None`.
impl From<Option<IpAddr>> for Addresses {
    fn from(address: Option<IpAddr>) -> Self {
        address.map_or(Self::All, Self::One)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(address) => address.fmt(f),
            Self::V4 => f.write_str("all addresses of IPv4 (0.0.0.0)"),
            Self::V6 => f.write_str("all addresses of IPv6 (::)"),
            Self::All => f.write_str("all addresses of IPv4 and IPv6 (::)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_overlap_that_have_an_address_in_common() {
        let [v4, other, v6] =
            ["10.0.0.1", "10.0.0.2", "fe80::1"].map(|text| text.parse().expect("an address"));
        let all = [
            Addresses::One(v4),
            Addresses::One(other),
            Addresses::One(v6),
            Addresses::V4,
            Addresses::V6,
            Addresses::All,
        ];
        // The rows and columns are in the same order.
        let expected = ["x..x.x", ".x.x.x", "..x.xx", "xx.x.x", "..x.xx", "xxxxxx"];
        for (one, row) in all.iter().zip(expected) {
            for (two, is) in all.iter().zip(row.chars()) {
                let common = [v4, other, v6]
                    .iter()
                    .any(|a| one.contains(*a) && two.contains(*a));
                assert_eq!(one.overlaps(*two), common, "{one} and {two}");
                assert_eq!(one.overlaps(*two), is == 'x', "{one} and {two}");
            }
        }
    }
}
