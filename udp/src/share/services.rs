//! The services whose requests a process receives at an address. A service of connection management
//! corresponds to a port of TCP or UDP.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use roce_stack::{Addresses, QpnRange};

use super::names::SharedAddress;
use super::owned_names::hold_exclusive;
use super::table;

/// Whether any process, this one or another, receives requests for a service that are sent to an
/// address (see [`Steering::serve`](roce_port::Steering::serve)). `service` is the lower half of
/// the service ID. The interface's index matters only for link-local addresses. Returns `false` if
/// the kernel's table of names can't be read.
pub fn is_served(address: IpAddr, interface_index: u32, service: u32) -> bool {
    let table = table::Table::read(&SharedAddress::new(address, interface_index));
    table.is_ok_and(|table| table.services.iter().any(|(served, _)| *served == service))
}

/// The names by which this process announces which management datagrams it receives at an address.
#[derive(Debug, Default)]
pub(super) struct Announced {
    agent: Option<OwnedFd>,
    services: BTreeMap<u32, OwnedFd>,
}

impl Announced {
    /// Replaces the announcements: announces the services in `wanted`. `Some` also announces an
    /// agent, even without services. `None` announces nothing. Returns whether the announcements
    /// changed.
    pub(super) fn update(
        &mut self,
        shared: &SharedAddress,
        part: QpnRange,
        wanted: Option<&[u32]>,
    ) -> io::Result<bool> {
        let services = wanted.unwrap_or_default();
        let before = self.services.len();
        self.services
            .retain(|service, _| services.contains(service));
        let mut changed = self.services.len() != before;
        for service in services {
            if !self.services.contains_key(service) {
                let name = hold_exclusive(&shared.server(*service, part))?;
                self.services.insert(*service, name);
                changed = true;
            }
        }
        match (wanted, &self.agent) {
            (Some(_), None) => self.agent = Some(hold_exclusive(&shared.agent(part))?),
            (None, Some(_)) => self.agent = None,
            _ => return Ok(changed),
        }
        Ok(true)
    }
}

/// The management datagrams that a port receives besides replies. If `is_open`, these are the
/// requests for the services in `served`. If no agent has a lower part, the port also receives the
/// requests for services that no process serves, and datagrams of other management classes. If not
/// `is_open`, the port announces nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services {
    pub(crate) is_open: bool,
    served: Vec<(Addresses, u32)>,
}

impl Services {
    pub(crate) fn add(&mut self, addresses: Addresses, service: u32) {
        if !self.served.contains(&(addresses, service)) {
            self.served.push((addresses, service));
        }
    }

    pub(crate) fn remove(&mut self, addresses: Addresses, service: u32) {
        self.served.retain(|served| *served != (addresses, service));
    }

    /// The services at one address; `None` if the process receives no management datagrams.
    pub(crate) fn at_address(&self, address: IpAddr) -> Option<Vec<u32>> {
        let served = self.served.iter().filter(|(at, _)| at.contains(address));
        self.is_open
            .then(|| served.map(|(_, service)| *service).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_ends_only_where_it_is_ended() {
        let [here, there] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut services = Services::default();
        assert_eq!(services.at_address(here), None);
        services.is_open = true;
        for addresses in [here.into(), there.into(), Addresses::V4, here.into()] {
            services.add(addresses, 7);
        }
        services.add(here.into(), 8);
        assert_eq!(services.at_address(here), Some(vec![7, 7, 8]));
        services.remove(here.into(), 7);
        assert_eq!(services.at_address(here), Some(vec![7, 8]));
        services.remove(Addresses::V4, 7);
        assert_eq!(services.at_address(here), Some(vec![8]));
        assert_eq!(services.at_address(there), Some(vec![7]));
    }
}
