//! The datapath over AF_XDP.
//!
//! The checks against AF_XDP avoid touching the interface where possible: many drivers reset their
//! queues when a program is attached.

use super::port::source_port_secret;
use super::{
    Datapath, DatapathChoice, DatapathKind, DatapathOptions, DatapathPort, UDP, XdpAttachment,
    XdpChecksum, XdpMode,
};
use crate::device::Device;
use reasons::{tx_features, why_copied};
use roce_port::PortError;
use roce_stack::{PriorityMap, QpnRange};
use roce_wire::VlanTag;
use roce_xdp::net::{Priority, Tagging};
use roce_xdp::offer::{self, DriverOffer, Offer};
use roce_xdp::program::{AttachMode, Mode};
use roce_xdp::socket::ZeroCopy;
use roce_xdp::{Ipv6Checksum, XdpPort, XdpPortConfig};
use std::cell::OnceCell;
use std::io;
use std::num::NonZeroU32;

mod reasons;

/// Why AF_XDP is not used where the kernel would copy frames.
const COPYING_IS_SLOWER: &str = "without zero-copy, AF_XDP is slower than sockets, for which the kernel \
                                 segments and coalesces packets; ROCE_DATAPATH=xdp selects AF_XDP";

/// Why AF_XDP is not used on the interface through which the machine is reached.
const DEFAULT_ROUTE: &str = "a default route leads through the interface, and many drivers reset it when AF_XDP's \
                             program is attached; ROCE_DATAPATH=xdp selects AF_XDP anyway";

/// Why AF_XDP is not used on the loopback.
const ONE_QUEUE: &str = "traffic that stays on this machine uses one queue, the loopback's, and the kernel gives \
                         a queue to only one AF_XDP socket: two processes can't share it";

/// A tag with VLAN 0, which carries only a priority.
const PRIORITY_TAG: VlanTag = VlanTag {
    tpid: 0x8100,
    tci: 0,
};

/// The facts for and against AF_XDP on an interface.
#[derive(Debug)]
struct Facts {
    loopback: bool,
    offer: io::Result<Offer>,
    /// Whether this process may use AF_XDP. Checked last, because the check opens a socket and
    /// loads a program.
    permission: OnceCell<Result<(), PortError>>,
    /// The link's MTU, in bytes.
    mtu: usize,
    /// Whether a default route leads through the interface.
    default_route: io::Result<bool>,
}

/// Opens AF_XDP's port.
///
/// # Errors
/// Why AF_XDP is not used.
pub(super) fn open(
    device: &Device,
    options: &DatapathOptions,
    priorities: Option<PriorityMap>,
    qpn_range: QpnRange,
) -> Result<DatapathPort, String> {
    let facts = Facts::of(device);
    let against = match options.datapath {
        DatapathChoice::Xdp => facts.why_impossible(options),
        _ => facts.why_auto_avoids_xdp(options),
    };
    if let Some(reason) = against {
        return Err(reason);
    }
    let mut config = config(device, options, facts.queues(options));
    config.redirect.part = Some(qpn_range);
    if options.xdp_priority_tag {
        let map = Priority::Map(priorities.unwrap_or_default());
        config.net.tagging = Tagging::Fixed(PRIORITY_TAG, map);
    }
    let port = XdpPort::open(config).map_err(|error| explain(&error))?;
    let kind = describe(&port);
    Ok(DatapathPort::Xdp(Box::new(port), kind))
}

/// Predicts [`open`], without touching the interface.
///
/// # Errors
/// Why AF_XDP would not be used, as far as that can be known.
pub(super) fn predict(device: &Device, options: &DatapathOptions) -> Result<Datapath, String> {
    let facts = Facts::of(device);
    let against = match options.datapath {
        DatapathChoice::Xdp => facts
            .why_impossible(options)
            .or_else(|| facts.why_occupied()),
        _ => facts.why_auto_avoids_xdp(options),
    };
    if let Some(reason) = against {
        return Err(reason);
    }
    let driver = facts.offer.as_ref().ok().and_then(|offer| offer.driver);
    let config = config(device, options, facts.queues(options));
    Ok(Datapath {
        kind: predicted_kind(driver, &config, facts.mtu),
        max_packet_bytes: config.max_packet_bytes(device.interface().addresses.iter()),
        receive_buffer_bytes: config.receive_buffer_bytes(),
        fallback: (options.datapath == DatapathChoice::Auto).then_some(UDP),
        not_taken: Vec::new(),
    })
}

/// The kind of a port that has started.
fn describe(port: &XdpPort) -> DatapathKind {
    DatapathKind::Xdp {
        attachment: Some(match port.attached().mode() {
            Mode::Native => XdpAttachment::Native,
            Mode::Generic => XdpAttachment::Generic,
        }),
        why_not_native: port.attached().why_not_native().map(ToString::to_string),
        zero_copy: Some(is_zero_copy(port)),
        why_copied: (!is_zero_copy(port)).then(|| {
            let native = port.attached().mode() == Mode::Native;
            let mtu = port.net().link().map_or(0, |link| link.mtu);
            why_copied(port.driver(), native, mtu)
                .unwrap_or_else(|| "the driver refused zero-copy".to_owned())
        }),
        queues: port.queues().len(),
        tx_features: port.driver().map(tx_features),
    }
}

/// Whether the driver reads and writes the frames of all queues in the process's memory.
fn is_zero_copy(port: &XdpPort) -> bool {
    port.queues()
        .iter()
        .all(|queue| queue.kernel().is_zero_copy())
}

fn predicted_kind(driver: Option<DriverOffer>, config: &XdpPortConfig, mtu: usize) -> DatapathKind {
    let native = match config.attach {
        AttachMode::Generic => Some(false),
        AttachMode::Native => Some(true),
        AttachMode::Auto => driver.map(|driver| driver.native),
    };
    let why_copied = why_copied(driver, native != Some(false), mtu);
    DatapathKind::Xdp {
        attachment: native.map(|native| {
            if native {
                XdpAttachment::Native
            } else {
                XdpAttachment::Generic
            }
        }),
        why_not_native: (config.attach == AttachMode::Auto && native == Some(false)).then(|| {
            let refusal = driver.and_then(|driver| driver.refusal);
            refusal.unwrap_or("the driver can't").to_owned()
        }),
        zero_copy: match (&why_copied, driver) {
            (Some(_), _) => Some(false),
            (None, Some(_)) => Some(true),
            (None, None) => None,
        },
        why_copied,
        queues: config.sockets.queues.len(),
        tx_features: driver.map(tx_features),
    }
}

impl Facts {
    fn of(device: &Device) -> Self {
        Self {
            loopback: device.is_loopback(),
            offer: offer::of_interface(device.interface().index),
            permission: OnceCell::new(),
            mtu: device.interface().mtu,
            default_route: offer::has_default_route(device.interface().index),
        }
    }

    fn why_impossible(&self, options: &DatapathOptions) -> Option<String> {
        self.why_interface_cannot(options)
            .or_else(|| self.why_forbidden())
    }

    /// Why this process may not use AF_XDP.
    fn why_forbidden(&self) -> Option<String> {
        let permission = self.permission.get_or_init(offer::permission);
        permission.as_ref().err().map(explain)
    }

    /// Why the interface can't be used with AF_XDP.
    fn why_interface_cannot(&self, options: &DatapathOptions) -> Option<String> {
        if self.loopback {
            return Some(ONE_QUEUE.to_owned());
        }
        let offer = match &self.offer {
            Err(error) => {
                return Some(format!(
                    "the kernel does not describe the interface: {error}"
                ));
            }
            Ok(offer) => offer,
        };
        if !offer.ethernet {
            return Some("the interface is not Ethernet".to_owned());
        }
        if let Some(wanted) = options.xdp_queues.map(NonZeroU32::get)
            && wanted > offer.queues
        {
            let available = offer.queues;
            return Some(format!(
                "ROCE_XDP_QUEUES asks for {wanted} queues, but the interface has {available}"
            ));
        }
        None
    }

    /// Why `auto` does not choose AF_XDP.
    fn why_auto_avoids_xdp(&self, options: &DatapathOptions) -> Option<String> {
        let impossible = self.why_interface_cannot(options);
        if let Some(impossible) = impossible.or_else(|| self.why_occupied()) {
            return Some(impossible);
        }
        if !options.roce_v1
            && let Some(slower) = self.why_slower(options)
        {
            return Some(slower);
        }
        match &self.default_route {
            Ok(false) => self.why_forbidden(),
            Ok(true) => Some(DEFAULT_ROUTE.to_owned()),
            Err(error) => Some(format!(
                "can't read which interfaces have a default route: {error}; ROCE_DATAPATH=xdp \
                 selects AF_XDP anyway"
            )),
        }
    }

    /// Why AF_XDP is slower than sockets on this interface, if that is known.
    fn why_slower(&self, options: &DatapathOptions) -> Option<String> {
        let driver = self.offer.as_ref().ok().and_then(|offer| offer.driver);
        // If the kernel does not report the driver's features, only an attempt can tell.
        let native = driver.is_none_or(|driver| driver.native);
        let native = native && options.xdp_mode != XdpMode::Generic;
        let why = why_copied(driver, native, self.mtu)?;
        Some(format!("{why}; {COPYING_IS_SLOWER}"))
    }

    /// Why AF_XDP can't be used, if the XDP program of another process is attached to the
    /// interface.
    fn why_occupied(&self) -> Option<String> {
        let holder = self.offer.as_ref().ok()?.holder.as_ref()?;
        Some(format!(
            "{holder} is attached to the interface: end the process that holds it, or detach it \
             (`ip link set dev INTERFACE xdp off`)"
        ))
    }

    fn queues(&self, options: &DatapathOptions) -> u32 {
        let available = self.offer.as_ref().map_or(1, |offer| offer.queues);
        options.xdp_queues.map_or(available, NonZeroU32::get)
    }
}

fn config(device: &Device, options: &DatapathOptions, queues: u32) -> XdpPortConfig {
    let interface = device.interface();
    let mut config = XdpPortConfig::new(&interface.name, interface.index, interface.mtu);
    config.use_queues(queues);
    config.source_port_secret = source_port_secret();
    config.attach = match options.xdp_mode {
        XdpMode::Auto => AttachMode::Auto,
        XdpMode::Native => AttachMode::Native,
        XdpMode::Generic => AttachMode::Generic,
    };
    config.ipv6_checksum = match options.xdp_checksum {
        XdpChecksum::None => Ipv6Checksum::None,
        XdpChecksum::Auto => Ipv6Checksum::Auto,
        XdpChecksum::Software => Ipv6Checksum::Software,
    };
    config.redirect.roce_v1 = options.roce_v1;
    if options.datapath == DatapathChoice::Auto && !options.roce_v1 {
        // Sockets are faster than any other mode of AF_XDP.
        config.attach = AttachMode::Native;
        config.sockets.zero_copy = ZeroCopy::Require;
    }
    config
}

/// A port's error, with what to do about it.
fn explain(error: &PortError) -> String {
    match error.source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "{error}: be root, or give the program these rights \
             (`setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM`)"
        ),
        Some(libc::EAFNOSUPPORT) => format!("{error}: this kernel has no AF_XDP"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
