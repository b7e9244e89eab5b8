//! Events and their effects.

use super::super::event::Route;
use super::super::facts::{Mac, OtherAddress, group_mac, mac_in};
use super::others::OtherLink;
use super::*;
use roce_stack::RoceVersion;

impl Core {
    /// Applies an event. [`Core::take_changes`] reports the changes that concern the caller.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Link(link) => self.update_link(link),
            Event::LinkGone => {
                self.gone = true;
                self.changes.link = true;
                self.invalidate_paths();
            }
            Event::Addresses(addresses) => {
                if self.own != addresses {
                    self.own = addresses;
                    self.addresses_changed();
                }
            }
            Event::Address(address) => self.update_address(address),
            Event::AddressGone(address) => {
                self.own.retain(|own| own.address != address);
                self.addresses_changed();
            }
            Event::Others(addresses) => {
                if self.others.set_addresses(addresses) {
                    self.invalidate_paths();
                }
            }
            Event::OtherAddress(other) => self.update_other(other, Others::add),
            Event::OtherAddressGone(other) => self.update_other(other, Others::remove),
            Event::OtherLink { index, mac } => {
                if self.others.update(index, mac) {
                    self.update_other_link(index);
                }
            }
            Event::RoutesChanged => self.invalidate_paths(),
            Event::Route(key, route) => self.apply_route(key, route),
            Event::Neighbour {
                address,
                mac,
                state,
            } => self.update_neighbour(address, mac, state),
            Event::NeighbourGone(address) => {
                self.update_neighbour(address, None, NeighbourState::None);
            }
            Event::Overrun => self.start_over(),
        }
    }

    /// Marks every path as outdated, so that its verdict is determined again at its next use.
    fn invalidate_paths(&mut self) {
        self.generation += 1;
        // Drop the queued route requests, because the next use of each outdated path requests its
        // route again.
        self.requests
            .retain(|request| !matches!(request, Request::Route(_)));
    }

    fn update_link(&mut self, link: Link) {
        if self.link.as_ref() != Some(&link) {
            self.link = Some(link);
            self.changes.link = true;
            self.invalidate_paths();
        }
    }

    fn update_address(&mut self, address: OwnAddress) {
        match self
            .own
            .iter_mut()
            .find(|own| own.address == address.address)
        {
            Some(own) if *own == address => return,
            Some(own) => *own = address,
            None => self.own.push(address),
        }
        self.addresses_changed();
    }

    fn addresses_changed(&mut self) {
        self.addresses = self.own.iter().map(|own| own.address).collect();
        self.changes.addresses = true;
        self.invalidate_paths();
    }

    /// Handles an address of another interface that came or went. Most do not affect any path.
    fn update_other(&mut self, other: OtherAddress, change: fn(&mut Others, OtherAddress) -> bool) {
        if change(&mut self.others, other) {
            let paths = self.paths.iter_mut();
            paths
                .filter(|path| path.key.dst == other.address)
                .for_each(paths::Path::outdate);
        }
    }

    fn update_other_link(&mut self, index: u32) {
        let others = &self.others;
        let paths = self.paths.iter_mut();
        paths
            .filter(|path| others.interface_of(path.key.dst) == Some(index))
            .for_each(paths::Path::outdate);
    }

    /// Starts over after events were lost, because any known fact may be wrong.
    fn start_over(&mut self) {
        self.counters.overruns += 1;
        self.others.forget_links();
        self.invalidate_paths();
        self.request(Request::Link);
        self.request(Request::Addresses);
        let hops: Vec<IpAddr> = self.hops.addresses().collect();
        for hop in hops {
            self.request(Request::Neighbour(hop));
        }
    }

    /// Applies the kernel's answer to a path that is still waiting for it.
    fn apply_route(&mut self, key: PathKey, route: Route) {
        let generation = self.generation;
        let is_waiting = |path: &&mut paths::Path| {
            path.generation == generation && path.verdict == Verdict::Pending
        };
        if self
            .paths
            .peek_mut(key)
            .as_ref()
            .is_none_or(|path| !is_waiting(path))
        {
            return;
        }
        let other = match route {
            Route::Local | Route::Unicast { gateway: None, .. } => {
                self.path_to_other_interface(key, route)
            }
            _ => None,
        };
        let verdict = other.unwrap_or_else(|| self.verdict(key, route));
        if let Some(path) = self.paths.peek_mut(key) {
            path.verdict = verdict;
        }
    }

    fn verdict(&mut self, key: PathKey, route: Route) -> Verdict {
        let Some(link) = &self.link else {
            return Verdict::Refused(Refusal::LinkDown);
        };
        let (hop, route_mtu) = match route {
            // rule: A16-next-hop
            Route::Unicast {
                gateway: Some(_), ..
            } if key.version == RoceVersion::V1 => return Verdict::Refused(Refusal::OffLink),
            Route::Unicast { gateway, mtu } => (Some(gateway.unwrap_or(key.dst)), mtu),
            Route::Multicast => (None, None),
            Route::Broadcast => return Verdict::Refused(Refusal::Destination),
            Route::Local => return Verdict::Refused(Refusal::Local),
            Route::None => return Verdict::Refused(Refusal::NoRoute),
            Route::Prohibited => return Verdict::Refused(Refusal::Prohibited),
        };
        // A group's Ethernet address follows from its IP address, whatever the route says.
        let hop = hop.filter(|_| !key.dst.is_multicast());
        let mtu = route_mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
        let resolution = match hop {
            None => Resolution::Known(group_mac(key.dst)),
            Some(hop) => self.hops.track(hop),
        };
        self.open_path(key, hop, resolution, mtu)
    }

    /// Opens the path to an address of another interface of this host, if the route, or the prefix
    /// of the source, says that the address is on the link. ARP does not resolve such an address,
    /// because the kernel drops packets whose source is one of its own addresses as forged. So this
    /// function requests the other interface's Ethernet address instead.
    fn path_to_other_interface(&mut self, key: PathKey, route: Route) -> Option<Verdict> {
        if self.addresses.contains(&key.dst) {
            return None;
        }
        let index = self.others.interface_of(key.dst)?;
        let is_on_link = |own: &OwnAddress| own.address == key.src && own.is_on_link(key.dst);
        let mtu = match route {
            Route::Unicast { mtu, .. } => mtu,
            _ if self.own.iter().any(is_on_link) => None,
            _ => return None,
        };
        match self.others.track(index) {
            OtherLink::Known(Some(mac)) => {
                let link = self.link.as_ref()?.mtu;
                let mtu = mtu.map_or(link, |mtu| mtu.min(link));
                Some(self.open_path(key, None, Resolution::Known(mac), mtu))
            }
            OtherLink::Known(None) => Some(Verdict::Refused(Refusal::Local)),
            OtherLink::Pending => {
                // When the answer arrives, the verdict is determined again.
                self.request(Request::OtherLink(index));
                Some(Verdict::Pending)
            }
        }
    }

    /// For RoCE v1, a link-local address that contains an Ethernet address resolves to that address
    /// without a lookup. Linux does the same.
    pub(super) fn verdict_without_route(&self, key: PathKey) -> Option<Verdict> {
        let IpAddr::V6(dst) = key.dst else {
            return None;
        };
        let mac = mac_in(dst).filter(|_| key.version == RoceVersion::V1)?;
        if self.addresses.contains(&key.dst) {
            return Some(Verdict::Refused(Refusal::Local));
        }
        let mtu = self.link.as_ref()?.mtu;
        Some(self.open_path(key, None, Resolution::Known(mac), mtu))
    }

    /// Opens a path that leads to `hop`, or to a destination whose Ethernet address is known.
    fn open_path(
        &self,
        key: PathKey,
        hop: Option<IpAddr>,
        resolution: Resolution,
        mtu: usize,
    ) -> Verdict {
        let Some(link) = &self.link else {
            return Verdict::Refused(Refusal::LinkDown);
        };
        let tag = self.config.tagging.tag(link);
        let (dst, resolved) = match resolution {
            Resolution::Known(mac) => (mac, true),
            Resolution::Pending | Resolution::Failed => ([0; 6], false),
        };
        match Template::new(key, link.mac, dst, tag, mtu) {
            None => Verdict::Refused(Refusal::Families),
            Some(template) => Verdict::Open {
                template: Box::new(template),
                hop,
                resolved,
            },
        }
    }

    /// Applies a change of a neighbour. The change takes effect with the next frame.
    fn update_neighbour(&mut self, address: IpAddr, mac: Option<Mac>, state: NeighbourState) {
        if !self.hops.update(address, mac, state) {
            return;
        }
        self.changes.neighbours = true;
        let known = match self.hops.resolution(address) {
            Some(Resolution::Known(mac)) => Some(mac),
            _ => None,
        };
        for path in self.paths.iter_mut() {
            if let Verdict::Open {
                template,
                hop: Some(hop),
                resolved,
            } = &mut path.verdict
                && *hop == address
            {
                *resolved = known.is_some();
                if let Some(mac) = known {
                    template.set_dst(mac);
                }
            }
        }
    }
}
