//! Ports that belong to somebody.

use roce_cm::{PortSpace, ServiceId};
use std::io::{self, ErrorKind};
use std::net::IpAddr;

/// A port of one of the spaces of Annex A11 that nobody else on the host has, as long as this
/// value lives. It ends with the process, however that ends.
#[derive(Debug)]
pub struct PortClaim {
    space: PortSpace,
    local: Option<IpAddr>,
    port: u16,
    _name: roce_udp::ServiceClaim,
}

/// The ports that are drawn from if none is named (RFC 6335's dynamic ports).
const DYNAMIC: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl PortClaim {
    /// Claims `port`, or with 0 one that is free, at an address, or at all addresses of the
    /// network namespace if none is named. The index of the interface matters only for
    /// link-local addresses.
    ///
    /// # Errors
    /// `AddrInUse`: somebody, in whatever process, has claimed the port at this address or at
    /// all, or, if none is named, at any; or with port 0 all are taken. Otherwise what the
    /// system says.
    pub fn take(
        space: PortSpace,
        local: Option<IpAddr>,
        interface_index: u32,
        port: u16,
    ) -> io::Result<Self> {
        let take = |port| {
            let service = service_word(ServiceId::ip(space, port));
            Ok(Self {
                space,
                local,
                port,
                _name: roce_udp::ServiceClaim::take(local, interface_index, service)?,
            })
        };
        if port != 0 {
            return take(port);
        }
        let mut bytes = [0; 2];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let count = DYNAMIC.end() - DYNAMIC.start();
        let first = u16::from_ne_bytes(bytes) % count;
        for step in 0..=count {
            let port = DYNAMIC.start() + (first + step) % (count + 1);
            match take(port) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                result => return result,
            }
        }
        Err(io::Error::new(
            ErrorKind::AddrInUse,
            "all dynamic ports are claimed",
        ))
    }

    /// The space of ports.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// The address, if it is claimed at one.
    pub fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The service that peers ask for.
    pub fn service(&self) -> ServiceId {
        ServiceId::ip(self.space, self.port)
    }
}

/// The bits of a service ID of Annex A11 in which two differ.
pub(super) fn service_word(service: ServiceId) -> u32 {
    // The upper half is zero.
    service.0 as u32
}
