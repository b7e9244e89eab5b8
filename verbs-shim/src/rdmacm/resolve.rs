//! Binds IDs to local addresses, and resolves the addresses of their peers.

use super::device::CmDevice;
use super::event::wait_if_sync;
use super::id::{Id, Inner, PendingEvent, State};
use super::table::{find, table};
use super::{path, sockaddr};
use crate::device::null_terminated;
use crate::prelude::*;
use roce_verbs::cm::PortClaim;
use roce_verbs::roce_cm::Addresses;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

pub(crate) extern "C" fn bind_addr(id: *mut RdmaCmId, address: In<u8>) -> c_int {
    guard::minus_one("rdma_bind_addr", || {
        let id = find(id)?;
        let address = sockaddr::read(address)?;
        let mut inner = id.inner.lock();
        inner.check(&[State::Idle])?;
        bind(&id, &mut inner, address)
    })
}

/// Binds an ID to a local address and port. At the unspecified address or a loopback address, the
/// ID has no device yet: as with the kernel's connection manager, the peer's address determines it.
/// Programs check this: they treat an ID with a device as bound to that device.
///
/// # Errors
/// `ENODEV` if no device has the address; `EADDRINUSE` or `EADDRNOTAVAIL` if the port is taken;
/// `EINVAL` for a link-local address without the scope that says of which interface.
pub(super) fn bind(id: &Id, inner: &mut Inner, address: SocketAddr) -> Result<(), Errno> {
    let address = sockaddr::canonical(address);
    if sockaddr::link_local_scope(address) == Some(0) {
        return Err(with_reason(Errno::EINVAL, || {
            format!(
                "{} is link-local: sin6_scope_id must be the index of its interface",
                address.ip()
            )
        }));
    }
    let claim = if selects_no_device(address.ip()) {
        let addresses = id.addresses_of(address.ip());
        PortClaim::take(id.space, addresses, 0, address.port()).or_errno()?
    } else {
        let device = table()?.devices.with_address(address)?;
        let claim = claim(id, &device, address)?;
        inner.device = Some(device);
        claim
    };
    inner.local = Some(with_port(address, claim.port()));
    inner.claim = Some(claim);
    inner.state = State::Bound;
    id.update_c_part(inner);
    Ok(())
}

/// Whether binding to an address leaves the device open: it is unspecified or a loopback address.
fn selects_no_device(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_loopback()
}

/// Whether an ID that is bound to `own` uses it as its source address for `peer`. Otherwise, the
/// host's routes select the source address.
fn keeps_source(own: IpAddr, peer: IpAddr) -> bool {
    let stays = peer.is_loopback() || peer.is_unspecified() || peer.is_multicast();
    !own.is_unspecified() && (!own.is_loopback() || stays)
}

impl Id {
    /// The addresses at which it claims its port. `::` includes IPv4 addresses, unless the program
    /// has set `RDMA_OPTION_ID_AFONLY`.
    fn addresses_of(&self, address: IpAddr) -> Addresses {
        match address {
            _ if !address.is_unspecified() => Addresses::One(address),
            IpAddr::V4(_) => Addresses::V4,
            IpAddr::V6(_) if self.af_only.load(Ordering::Relaxed) => Addresses::V6,
            IpAddr::V6(_) => Addresses::All,
        }
    }
}

/// Claims a port at an address of a device. The address is activated later, when the ID resolves
/// its peer's address or listens: some programs bind an ID only to find the device of an address.
fn claim(id: &Id, device: &CmDevice<Id>, local: SocketAddr) -> Result<PortClaim, Errno> {
    let manager = &device.manager;
    let claim = manager.claim_port(id.space, local.ip(), local.port());
    claim.or_errno()
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// `rdma_resolve_addr`. The result is available immediately, so the timeout has no effect.
pub(crate) extern "C" fn resolve_addr(
    id: *mut RdmaCmId,
    source: In<u8>,
    destination: In<u8>,
    _timeout_ms: c_int,
) -> c_int {
    guard::minus_one("rdma_resolve_addr", || {
        let id = find(id)?;
        let source = sockaddr::read_if_given(source)?;
        let destination = sockaddr::canonical(sockaddr::read(destination)?);
        let result = {
            let mut inner = id.inner.lock();
            inner.check(&[State::Idle, State::Bound])?;
            resolve(&id, &mut inner, source, destination)
        };
        id.push_event(PendingEvent::of(
            &id,
            result,
            CM_EVENT_ADDR_RESOLVED,
            CM_EVENT_ADDR_ERROR,
        ));
        wait_if_sync(&id)
    })
}

fn resolve(
    id: &Id,
    inner: &mut Inner,
    source: Option<SocketAddr>,
    destination: SocketAddr,
) -> Result<(), Errno> {
    // The report of a failure names it.
    inner.remote = Some(destination);
    if inner.state == State::Idle
        && let Some(source) = source
    {
        bind(id, inner, source)?;
    }
    let bound = inner.local;
    let destination = scoped_by(bound, destination)?;
    let address = bound.map(|local| local.ip());
    let address = match address.filter(|own| keeps_source(*own, destination.ip())) {
        Some(address) => address,
        None => sockaddr::source_for(destination)?,
    };
    if address.is_ipv4() != destination.is_ipv4() {
        return Err(with_reason(Errno::EINVAL, || {
            format!("{address} and {} are not of one family", destination.ip())
        }));
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
    select_device(id, inner, local)?;
    // The unspecified address as a destination means this host.
    let remote = if destination.ip().is_unspecified() {
        SocketAddr::new(address, destination.port())
    } else {
        destination
    };
    inner.remote = Some(remote);
    inner.state = State::AddrResolved;
    id.update_c_part(inner);
    Ok(())
}

/// A destination of an ID that may be bound. A link-local one without a scope gets that of the bound
/// address.
///
/// # Errors
/// `EINVAL` if both have a scope, and not the same.
fn scoped_by(bound: Option<SocketAddr>, mut destination: SocketAddr) -> Result<SocketAddr, Errno> {
    let own = bound.and_then(sockaddr::link_local_scope);
    let its = sockaddr::link_local_scope(destination);
    match (own, its, &mut destination) {
        (Some(own), Some(0), SocketAddr::V6(destination)) => destination.set_scope_id(own),
        (Some(own), Some(its), _) if own != its => {
            return Err(with_reason(Errno::EINVAL, || {
                format!("the ID is bound to interface {own}, and the destination is at {its}")
            }));
        }
        _ => {}
    }
    Ok(destination)
}

/// Selects the device that has the local address, and claims a port unless the ID has one.
fn select_device(id: &Id, inner: &mut Inner, local: SocketAddr) -> Result<(), Errno> {
    let device = table()?.devices.with_address(local)?;
    device.manager.activate(local.ip()).or_errno()?;
    let port = match &inner.claim {
        Some(claimed) => claimed.port(),
        None => {
            let new = claim(id, &device, local)?;
            let port = new.port();
            inner.claim = Some(new);
            port
        }
    };
    inner.local = Some(with_port(local, port));
    inner.device = Some(device);
    Ok(())
}

/// `rdma_get_devices`: a NULL-terminated array of contexts.
pub(crate) extern "C" fn get_devices(count: Out<c_int>) -> *mut Handle<IbvContext> {
    guard::pointer("rdma_get_devices", || {
        count.put_if_not_null(0);
        let found = table()?.devices.all()?;
        null_terminated(
            found.iter().map(|device| device.handles().0).collect(),
            count,
        )
    })
}

/// `rdma_free_devices`. The contexts stay open.
pub(crate) extern "C" fn free_devices(list: *mut Handle<IbvContext>) {
    // SAFETY: the caller has it from `get_devices`, which allocated it, or it is NULL.
    unsafe { libc::free(list.cast()) };
}

pub(crate) extern "C" fn resolve_route(id: *mut RdmaCmId, _timeout_ms: c_int) -> c_int {
    guard::minus_one("rdma_resolve_route", || {
        let id = find(id)?;
        {
            let mut inner = id.inner.lock();
            inner.check(&[State::AddrResolved])?;
            path::fill_route(&id, &mut inner)?;
            inner.state = State::RouteResolved;
        }
        id.push_event(PendingEvent::plain(&id, CM_EVENT_ROUTE_RESOLVED, 0));
        wait_if_sync(&id)
    })
}
