//! What a process has at an address besides a part of the QPNs: services, that is, ports of
//! connection management.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use roce_stack::QpnPart;

use super::names::{self, Place};
use super::table;

/// A service that nobody else in this network namespace has at the address, or at any, as
/// long as this value lives. It ends with the process, however that ends.
#[derive(Debug)]
pub struct ServiceClaim {
    _name: OwnedFd,
}

impl ServiceClaim {
    /// Takes a service, by the lower half of its ID, at an address, or at all if none is
    /// named. The interface's index matters only for link-local addresses.
    ///
    /// # Errors
    /// `AddrInUse` if somebody has it at the address or at all; if none is named, at any.
    pub fn take(address: Option<IpAddr>, interface_index: u32, service: u32) -> io::Result<Self> {
        let everywhere = names::claim_everywhere(service);
        // First the own name: of two who come at once, one at least sees the other.
        let (name, is_taken) = match address {
            None => {
                let name = names::hold_in_sight(&everywhere)?;
                let is_other = |name: &String| *name != everywhere;
                let is_claim = |name: &String| names::is_claim(name, service) && is_other(name);
                (name, table::names()?.iter().any(is_claim))
            }
            Some(address) => {
                let place = Place::new(address, interface_index);
                let name = names::hold(&place.claim(service))?;
                (name, names::is_in_sight(&everywhere)?)
            }
        };
        if is_taken {
            return Err(ErrorKind::AddrInUse.into());
        }
        Ok(Self { _name: name })
    }
}

/// Whether some process, this one or another, takes requests for a service, by the lower half
/// of its ID, that are sent to an address (see [`UdpPort::serve`](crate::UdpPort::serve)). The
/// interface's index matters only for link-local addresses. If the kernel's table of names
/// can't be read, nobody does.
pub fn is_served(address: IpAddr, interface_index: u32, service: u32) -> bool {
    let table = table::Table::read(&Place::new(address, interface_index));
    table.is_ok_and(|table| table.services.iter().any(|(served, _)| *served == service))
}

/// What this process says that it takes at an address, by names.
#[derive(Debug, Default)]
pub(super) struct Announced {
    agent: Option<OwnedFd>,
    services: BTreeMap<u32, OwnedFd>,
}

impl Announced {
    /// Says this, and nothing else from now on. Returns whether that is a change.
    pub(super) fn say(
        &mut self,
        place: &Place,
        part: QpnPart,
        wanted: Option<&[u32]>,
    ) -> io::Result<bool> {
        let services = wanted.unwrap_or_default();
        let before = self.services.len();
        self.services
            .retain(|service, _| services.contains(service));
        let mut changed = self.services.len() != before;
        for service in services {
            if !self.services.contains_key(service) {
                let name = names::hold(&place.server(*service, part))?;
                self.services.insert(*service, name);
                changed = true;
            }
        }
        match (wanted, &self.agent) {
            (Some(_), None) => self.agent = Some(names::hold(&place.agent(part))?),
            (None, Some(_)) => self.agent = None,
            _ => return Ok(changed),
        }
        Ok(true)
    }
}

/// What a port takes for its process: nothing of QP1's, or what no other process takes and
/// these services, each at one address or at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services {
    pub(crate) open: bool,
    served: Vec<(Option<IpAddr>, u32)>,
}

impl Services {
    pub(crate) fn add(&mut self, address: Option<IpAddr>, service: u32) {
        if !self.served.contains(&(address, service)) {
            self.served.push((address, service));
        }
    }

    pub(crate) fn remove(&mut self, address: Option<IpAddr>, service: u32) {
        self.served.retain(|served| *served != (address, service));
    }

    /// Those at one address; `None` if nothing at all is taken there.
    pub(crate) fn at(&self, address: IpAddr) -> Option<Vec<u32>> {
        let is_there = |local: Option<IpAddr>| local.is_none_or(|local| local == address);
        let served = self.served.iter().filter(|(local, _)| is_there(*local));
        self.open
            .then(|| served.map(|(_, service)| *service).collect())
    }
}
