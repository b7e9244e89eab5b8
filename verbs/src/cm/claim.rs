//! Claims on ports. Only one claim on the host can hold a port.

use roce_cm::{Addresses, PortSpace, ServiceId};
use roce_udp::ClaimError;
use std::{fmt, io};

/// A claim on a port of one of Annex A11's port spaces. While this value lives, no other claim on
/// the host can have the port at the same address. The claim ends with the process, however that
/// ends.
#[derive(Debug)]
pub struct PortClaim {
    space: PortSpace,
    local: Addresses,
    port: u16,
    _claim: roce_udp::ServiceClaim,
}

/// The ports to choose from if the caller names none (RFC 6335's dynamic ports).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl PortClaim {
    /// Claims `port`, or a free one if `port` is 0, at one address of the network namespace, at all
    /// addresses of a family, or at all addresses (`None` converts to this). `interface_index`
    /// matters only for a link-local address.
    ///
    /// # Errors
    /// [`PortClaimError::Taken`] if another claim, of any process, has the port at one of these
    /// addresses. With port 0, [`PortClaimError::AllTaken`] if other claims hold every dynamic
    /// port.
    pub fn take(
        space: PortSpace,
        local: impl Into<Addresses>,
        interface_index: u32,
        port: u16,
    ) -> Result<Self, PortClaimError> {
        let local = local.into();
        let claim_one = |port| {
            let service = service_id_u32(ServiceId::ip(space, port));
            let name = roce_udp::ServiceClaim::take(local, interface_index, service);
            let _claim = name.map_err(|error| match error {
                ClaimError::Taken { at, holder } => PortClaimError::Taken(PortTaken {
                    space,
                    port,
                    wanted: local,
                    at,
                    holder,
                }),
                ClaimError::System(source) => PortClaimError::System(source),
                other => PortClaimError::System(io::Error::other(other)),
            })?;
            Ok(Self {
                space,
                local,
                port,
                _claim,
            })
        };
        if port != 0 {
            return claim_one(port);
        }
        let mut bytes = [0; 2];
        getrandom::fill(&mut bytes)
            .map_err(|error| PortClaimError::System(io::Error::other(error.to_string())))?;
        let count = DYNAMIC_PORTS.end() - DYNAMIC_PORTS.start();
        let first = u16::from_ne_bytes(bytes) % count;
        for step in 0..=count {
            let port = DYNAMIC_PORTS.start() + (first + step) % (count + 1);
            match claim_one(port) {
                Err(PortClaimError::Taken(_)) => {}
                result => return result,
            }
        }
        Err(PortClaimError::AllTaken { space })
    }

    /// The port space.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// The addresses at which the port is claimed.
    pub fn local(&self) -> Addresses {
        self.local
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The service ID that peers ask for.
    pub fn service(&self) -> ServiceId {
        ServiceId::ip(self.space, self.port)
    }
}

/// Why a port can't be claimed.
#[non_exhaustive]
pub enum PortClaimError {
    /// Another claim holds the port.
    Taken(PortTaken),
    /// No port was named, and all dynamic ones (49152 to 65535) are claimed.
    AllTaken {
        /// The port space.
        space: PortSpace,
    },
    /// The system refused.
    System(io::Error),
}

/// A port that another claim holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTaken {
    /// The port space.
    pub space: PortSpace,
    /// The port.
    pub port: u16,
    /// The addresses at which the caller wanted to claim it.
    pub wanted: Addresses,
    /// The addresses at which the other claim holds it.
    pub at: Addresses,
    /// The process that holds the other claim, if this process may know it.
    pub holder: Option<roce_udp::Holder>,
}

impl fmt::Display for PortClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(taken) => {
                let PortTaken {
                    space,
                    port,
                    wanted,
                    at,
                    holder,
                } = taken;
                let (at, holder) = (*at, holder.clone());
                let held = ClaimError::Taken { at, holder };
                write!(
                    f,
                    "port {port} of space {space:?} can't be claimed at {wanted}: {held}"
                )
            }
            Self::AllTaken { space } => write!(
                f,
                "all dynamic ports of space {space:?} are claimed: name a port below 49152"
            ),
            Self::System(error) => write!(f, "claiming a port: {error}"),
        }
    }
}

debug_as_display!(PortClaimError);

impl std::error::Error for PortClaimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

/// The lower 32 bits of an Annex A11 service ID. Its upper 32 bits are always zero.
pub(super) fn service_id_u32(service: ServiceId) -> u32 {
    // Lossless: the upper half is zero.
    service.0 as u32
}
