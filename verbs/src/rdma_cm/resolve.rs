//! Binds IDs to local addresses, and resolves the addresses of their peers.

use super::{Devices, Event, EventKind, Id, IdDevice, IdError, Inner, State};
use crate::cm::PortClaim;
use crate::device::source_address_for;
use roce_cm::Addresses;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Id {
    /// Binds the ID to a local address and port; the system chooses port 0. At the unspecified address or
    /// a loopback address, the ID has no device yet: as with the kernel's connection manager, the
    /// peer's address determines it. Programs check this: they treat an ID with a device as bound to
    /// that device.
    ///
    /// # Errors
    /// If no device has the address, the port is taken, or a link-local address lacks the scope that
    /// says of which interface it is.
    pub fn bind(&self, devices: &Devices, address: SocketAddr) -> Result<(), IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::Idle])?;
        self.bind_inner(&mut inner, devices, address)
    }

    pub(super) fn bind_inner(
        &self,
        inner: &mut Inner,
        devices: &Devices,
        address: SocketAddr,
    ) -> Result<(), IdError> {
        let mut address = canonical(address);
        let ip = address.ip();
        if link_local_scope(address) == Some(0) {
            return IdError::invalid(format!(
                "{ip} is link-local: sin6_scope_id must be the index of its interface"
            ));
        }
        let claim = if ip.is_unspecified() || ip.is_loopback() {
            PortClaim::take(self.space, self.addresses_of(ip), 0, address.port())?
        } else {
            let device = devices.with_address(address)?;
            let claim = self.claim(&device, address)?;
            inner.device = Some(device);
            claim
        };
        address.set_port(claim.port());
        inner.local = Some(address);
        inner.claim = Some(claim);
        inner.state = State::Bound;
        Ok(())
    }

    /// The addresses at which it claims its port. `::` includes IPv4 addresses, unless the program wants
    /// IPv6 only.
    fn addresses_of(&self, address: IpAddr) -> Addresses {
        match address {
            _ if !address.is_unspecified() => Addresses::One(address),
            IpAddr::V4(_) => Addresses::V4,
            IpAddr::V6(_) if self.is_v6_only.load(Ordering::Relaxed) => Addresses::V6,
            IpAddr::V6(_) => Addresses::All,
        }
    }

    /// Claims a port at an address of a device. The address is activated later, when the ID resolves
    /// its peer's address or listens: some programs bind an ID only to find the device of an address.
    fn claim(&self, device: &IdDevice, local: SocketAddr) -> Result<PortClaim, IdError> {
        let claim = device
            .manager
            .claim_port(self.space, local.ip(), local.port());
        Ok(claim?)
    }

    /// Resolves the peer's address. Binds the ID to `source` if it is not bound. Returns the event that
    /// says how it went.
    ///
    /// # Errors
    /// If the ID's state does not allow it.
    pub fn resolve_addr(
        self: &Arc<Self>,
        devices: &Devices,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<Event, IdError> {
        let result = {
            let mut inner = self.inner.lock();
            inner.check(&[State::Idle, State::Bound])?;
            self.resolve(&mut inner, devices, source, canonical(destination))
        };
        let (good, bad) = (EventKind::AddrResolved, EventKind::AddrError);
        Ok(Event::of(self, result, good, bad))
    }

    fn resolve(
        &self,
        inner: &mut Inner,
        devices: &Devices,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), IdError> {
        // The report of a failure names it.
        inner.remote = Some(destination);
        if inner.state == State::Idle
            && let Some(source) = source
        {
            self.bind_inner(inner, devices, source)?;
        }
        let bound = inner.local;
        let mut destination = scoped_by(bound, destination)?;
        let peer = destination.ip();
        let address = match bound.filter(|own| keeps_source(own.ip(), peer)) {
            Some(own) => own.ip(),
            None => source_address_for(destination)
                .map_err(|source| IdError::NoRoute { to: peer, source })?,
        };
        if address.is_ipv4() != peer.is_ipv4() {
            return IdError::invalid(format!("{address} and {peer} are not of one family"));
        }
        let local = match bound.filter(|local| local.ip() == address) {
            Some(local) => local,
            None => {
                let mut local = SocketAddr::new(address, bound.map_or(0, |local| local.port()));
                if let (SocketAddr::V6(local), SocketAddr::V6(to)) = (&mut local, destination)
                    && local.ip().is_unicast_link_local()
                {
                    local.set_scope_id(to.scope_id());
                }
                local
            }
        };
        self.select_device(inner, devices, local)?;
        // The unspecified address as a destination means this host.
        if peer.is_unspecified() {
            destination.set_ip(address);
        }
        inner.remote = Some(destination);
        inner.state = State::AddrResolved;
        Ok(())
    }

    /// Selects the device that has the local address, and claims a port unless the ID has one.
    fn select_device(
        &self,
        inner: &mut Inner,
        devices: &Devices,
        mut local: SocketAddr,
    ) -> Result<(), IdError> {
        let device = devices.with_address(local)?;
        device.manager.activate(local.ip())?;
        let claim = match inner.claim.take() {
            Some(claim) => claim,
            None => self.claim(&device, local)?,
        };
        local.set_port(claim.port());
        inner.claim = Some(claim);
        inner.local = Some(local);
        inner.device = Some(device);
        Ok(())
    }

    /// Resolves the route, which the system knows. Returns the event.
    ///
    /// # Errors
    /// If the ID's state does not allow it.
    pub fn resolve_route(self: &Arc<Self>) -> Result<Event, IdError> {
        let mut inner = self.inner.lock();
        inner.check(&[State::AddrResolved])?;
        inner.state = State::RouteResolved;
        Ok(Event::new(self, EventKind::RouteResolved))
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The scope of an address, if it is link-local; 0 if it lacks one.
fn link_local_scope(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => Some(address.scope_id()),
        _ => None,
    }
}

/// Whether an ID that is bound to `own` uses it as its source address for `peer`. Otherwise, the
/// host's routes select the source address.
pub(super) fn keeps_source(own: IpAddr, peer: IpAddr) -> bool {
    let stays = peer.is_loopback() || peer.is_unspecified() || peer.is_multicast();
    !own.is_unspecified() && (!own.is_loopback() || stays)
}

/// A destination of an ID that may be bound. A link-local one without a scope gets that of the bound
/// address.
///
/// # Errors
/// If both have a scope, and not the same.
pub(super) fn scoped_by(
    bound: Option<SocketAddr>,
    mut destination: SocketAddr,
) -> Result<SocketAddr, IdError> {
    let own = bound.and_then(link_local_scope);
    let its = link_local_scope(destination);
    match (own, its, &mut destination) {
        (Some(own), Some(0), SocketAddr::V6(destination)) => destination.set_scope_id(own),
        (Some(own), Some(its), _) if own != its => {
            return IdError::invalid(format!(
                "the ID is bound to interface {own}, and the destination is at {its}"
            ));
        }
        _ => {}
    }
    Ok(destination)
}
