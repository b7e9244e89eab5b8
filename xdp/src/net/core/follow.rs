//! News: what they change.

use super::super::event::Route;
use super::super::facts::{group_mac, mac_in};
use super::*;
use roce_stack::port::RoceVersion;

impl Core {
    /// Takes news in. Changes that concern others are told by [`Core::take_changes`].
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Link(link) => self.follow_link(link),
            Event::LinkGone => {
                self.gone = true;
                self.changes.link = true;
                self.judge_anew();
            }
            Event::Addresses(addresses) => {
                if self.own != addresses {
                    self.own = addresses;
                    self.addresses_changed();
                }
            }
            Event::Address(address) => self.follow_address(address),
            Event::AddressGone(address) => {
                self.own.retain(|own| own.address != address);
                self.addresses_changed();
            }
            Event::RoutesChanged => self.judge_anew(),
            Event::Route(key, route) => self.follow_route(key, route),
            Event::Neighbour {
                address,
                mac,
                state,
            } => self.follow_neighbour(address, mac, state),
            Event::NeighbourGone(address) => {
                self.follow_neighbour(address, None, NeighbourState::None);
            }
            Event::Overrun => self.start_over(),
        }
    }

    /// Every path is judged anew when it is used next.
    fn judge_anew(&mut self) {
        self.generation += 1;
        // What was asked may be answered from before the change.
        self.requests
            .retain(|request| !matches!(request, Request::Route(_)));
    }

    fn follow_link(&mut self, link: Link) {
        if self.link.as_ref() != Some(&link) {
            self.link = Some(link);
            self.changes.link = true;
            self.judge_anew();
        }
    }

    fn follow_address(&mut self, address: OwnAddress) {
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
        self.judge_anew();
    }

    /// News were lost: whatever is known may be wrong.
    fn start_over(&mut self) {
        self.counters.overruns += 1;
        self.judge_anew();
        self.request(Request::Link);
        self.request(Request::Addresses);
        let hops: Vec<IpAddr> = self.hops.addresses().collect();
        for hop in hops {
            self.request(Request::Neighbour(hop));
        }
    }

    /// Takes the kernel's answer for a path that still waits for it.
    fn follow_route(&mut self, key: PathKey, route: Route) {
        let generation = self.generation;
        let waits = |path: &&mut paths::Path| {
            path.generation == generation && path.verdict == Verdict::Pending
        };
        if self
            .paths
            .peek_mut(key)
            .as_ref()
            .is_none_or(|path| !waits(path))
        {
            return;
        }
        let verdict = self.verdict(key, route);
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
        // A group's address needs no finding out, whatever the route says.
        let hop = hop.filter(|_| !key.dst.is_multicast());
        let mtu = route_mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
        let resolution = match hop {
            None => Resolution::Known(group_mac(key.dst)),
            Some(hop) => self.hops.want(hop),
        };
        self.open(key, hop, resolution, mtu)
    }

    /// RoCE v1 asks nobody where a link-local address is that has an Ethernet address in it:
    /// there. Linux does the same.
    pub(super) fn without_route(&self, key: PathKey) -> Option<Verdict> {
        let IpAddr::V6(dst) = key.dst else {
            return None;
        };
        let mac = mac_in(dst).filter(|_| key.version == RoceVersion::V1)?;
        if self.addresses.contains(&key.dst) {
            return Some(Verdict::Refused(Refusal::Local));
        }
        let mtu = self.link.as_ref()?.mtu;
        Some(self.open(key, None, Resolution::Known(mac), mtu))
    }

    /// A path that leads to `hop`, or to where everybody knows.
    fn open(
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

    /// Takes news of a neighbour, which take effect with the next frame.
    fn follow_neighbour(
        &mut self,
        address: IpAddr,
        mac: Option<super::super::facts::Mac>,
        state: NeighbourState,
    ) {
        if !self.hops.learn(address, mac, state) {
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
