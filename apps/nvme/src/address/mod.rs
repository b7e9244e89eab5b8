//! Addresses of subsystems as text.

use crate::DEFAULT_PORT;
use crate::wire::{Nqn, NqnError};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

const SCHEME: &str = "nvme://";

/// A subsystem at an address: `nvme://ADDRESS:PORT/NQN`. Without `:PORT` it is 4420. An IPv6 address
/// is in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where the subsystem listens.
    pub at: SocketAddr,
    /// The subsystem's name; `None`: the discovery service at the address.
    pub subsystem: Option<Nqn>,
}

/// A text is no address of a subsystem.
#[derive(Clone, PartialEq, Eq)]
pub enum AddressError {
    /// It does not begin with `nvme://`.
    Scheme(String),
    /// The rest is no IP address, with or without a port.
    Socket(String),
    /// The last part is no name.
    Name(NqnError),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = "an address looks like nvme://10.0.0.2:4420/nqn.2014-08.org.nvmexpress:disk1";
        match self {
            Self::Scheme(text) => write!(f, "{text:?} does not begin with {SCHEME}: {right}"),
            Self::Socket(text) => write!(
                f,
                "{text:?} is no IP address with or without a port, for example 10.0.0.2:4420 or \
                 [fd00::2]:4420: {right}"
            ),
            Self::Name(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| AddressError::Scheme(text.to_owned()))?;
        let (at, name) = rest.split_once('/').unwrap_or((rest, ""));
        let subsystem = match name {
            "" => None,
            name => Some(name.parse().map_err(AddressError::Name)?),
        };
        let at = parse_socket(at).ok_or_else(|| AddressError::Socket(at.to_owned()))?;
        Ok(Self { at, subsystem })
    }
}

/// An IP address with or without a port.
pub(crate) fn parse_socket(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let bare: Option<IpAddr> = bare.unwrap_or(text).parse().ok();
    bare.map(|ip| SocketAddr::new(ip, DEFAULT_PORT))
        .or_else(|| text.parse().ok())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/", self.at)?;
        match &self.subsystem {
            Some(name) => name.fmt(f),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
