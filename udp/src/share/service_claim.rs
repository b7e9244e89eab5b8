//! Claims of services, each by one process.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use roce_stack::Addresses;

use super::holder::Holder;
use super::{names, table};

/// A claim of a service. While this value lives, no other claim in this network namespace has the
/// service at any address of this claim. The claim also ends when the process ends or is killed.
#[derive(Debug)]
pub struct ServiceClaim {
    _name: OwnedFd,
}

/// Why a service can't be claimed.
#[non_exhaustive]
pub enum ClaimError {
    /// Another claim has the service.
    Taken {
        /// The addresses at which the other claim has it.
        at: Addresses,
        /// The process that has the other claim, if this process may see it.
        holder: Option<Holder>,
    },
    /// The system refuses.
    System(io::Error),
}

impl ServiceClaim {
    /// Claims a service, by the lower half of its ID, at `addresses`. The interface's index matters
    /// only for a link-local address.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] if another claim has the service at one of the addresses.
    pub fn take(
        addresses: impl Into<Addresses>,
        interface_index: u32,
        service: u32,
    ) -> Result<Self, ClaimError> {
        let addresses = addresses.into();
        let name = names::claim(addresses, interface_index, service);
        // Take the name before looking for others: if two processes claim at the same time, at
        // least one of them then sees the other.
        let held = match addresses {
            Addresses::One(_) => names::hold(&name),
            _ => names::hold_connectable(&name),
        };
        let held = match held {
            Ok(held) => held,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(taken_error(addresses, &name));
            }
            Err(error) => return Err(error.into()),
        };
        let other = match addresses {
            Addresses::One(address) => find_wider(address, service)?,
            _ => find_overlapping(addresses, &name, service)?,
        };
        match other {
            Some((at, name)) => Err(taken_error(at, &name)),
            None => Ok(Self { _name: held }),
        }
    }
}

/// Finds a claim at several addresses that include this one.
fn find_wider(address: IpAddr, service: u32) -> io::Result<Option<(Addresses, String)>> {
    let family = match address {
        IpAddr::V4(_) => Addresses::V4,
        IpAddr::V6(_) => Addresses::V6,
    };
    for at in [Addresses::All, family] {
        let name = names::claim(at, 0, service);
        if names::is_connectable(&name)? {
            return Ok(Some((at, name)));
        }
    }
    Ok(None)
}

/// Finds a claim other than `own` at one of these addresses.
fn find_overlapping(
    addresses: Addresses,
    own: &str,
    service: u32,
) -> io::Result<Option<(Addresses, String)>> {
    let overlapping = |name: String| {
        let at = names::claimed_at(&name, service)?;
        (name != own && at.overlaps(addresses)).then_some((at, name))
    };
    Ok(table::names()?.into_iter().find_map(overlapping))
}

fn taken_error(at: Addresses, name: &str) -> ClaimError {
    ClaimError::Taken {
        at,
        holder: Holder::of(name),
    }
}

impl From<io::Error> for ClaimError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken {
                at,
                holder: Some(holder),
            } => write!(f, "{holder} has it at {at}"),
            Self::Taken { at, holder: None } => write!(
                f,
                "a process that this one may not inspect has it at {at}; to find that process, \
                 run `ss -xap | grep {}` as root",
                names::PREFIX
            ),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ClaimError {}
