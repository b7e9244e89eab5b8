//! Chooses a device's datapath.
//!
//! The checks against AF_XDP avoid touching the interface where possible: many drivers reset their
//! queues when a program is attached.

use super::reasons::{tx_features, why_copied};
use super::{
    DatapathChoice, DatapathKind, DatapathOptions, DatapathPort, DevicePort, Layers, NotTaken, UDP,
    XDP, XdpAttachment, XdpChecksum, XdpMode,
};
use crate::datapath::Datapath;
use crate::device::Device;
use crate::error::StartError;
use roce_port::PortError;
use roce_stack::{PriorityMap, QpnRange};
use roce_udp::{UdpPort, UdpPortConfig};
use roce_wire::VlanTag;
use roce_xdp::net::{Priority, Tagging};
use roce_xdp::offer::{self, DriverOffer, Offer};
use roce_xdp::program::AttachMode;
use roce_xdp::socket::ZeroCopy;
use roce_xdp::{Ipv6Checksum, XdpPort, XdpPortConfig};
use std::cell::OnceCell;
use std::io;
use std::num::NonZeroU32;

/// Why sockets are not used where `auto` chooses AF_XDP.
const ZERO_COPY_IS_FASTER: &str =
    "AF_XDP with zero-copy is faster; ROCE_DATAPATH=udp selects sockets";
/// Why sockets are not used with RoCE v1.
const SOCKETS_ARE_ROCE_V2: &str = "RoCE v1 was asked for (ROCE_V1=1), which sockets can't carry";
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

/// Opens the port of a device, for QPs with numbers in `qpn_range` and packets with these
/// priorities, if any. Also returns the datapaths that were not chosen, and why.
pub(crate) fn open(
    device: &Device,
    options: &DatapathOptions,
    priorities: Option<PriorityMap>,
    qpn_range: QpnRange,
) -> Result<(DatapathPort, Vec<NotTaken>), StartError> {
    let reason = match options.datapath {
        DatapathChoice::Udp => sockets_requested(),
        DatapathChoice::Xdp => {
            return match Facts::of(device).why_impossible(options) {
                Some(reason) => Err(refused(device, reason)),
                None => open_xdp(device, options, priorities, qpn_range)
                    .map(|port| (port, vec![not_taken(UDP, xdp_requested())]))
                    .map_err(|error| refused(device, explain(&error))),
            };
        }
        DatapathChoice::Auto => match Facts::of(device).why_auto_avoids_xdp(options) {
            Some(reason) => reason,
            None => match open_xdp(device, options, priorities, qpn_range) {
                Ok(port) => return Ok((port, vec![not_taken(UDP, why_not_sockets(options))])),
                Err(error) => explain(&error),
            },
        },
    };
    let port = open_udp(device, options, priorities, Some(qpn_range));
    Ok((port, vec![not_taken(XDP, reason)]))
}

/// A placeholder for a device's port until its datapath starts: a UDP port without an address, and
/// therefore without a socket. Code that posts and polls then need not handle a missing port.
pub(crate) fn placeholder(device: &Device, options: &DatapathOptions) -> DevicePort {
    open_udp(device, options, None, None).inside(Layers::default())
}

/// Predicts the choice of [`open`], as far as that is possible without touching the interface.
pub(crate) fn predict(device: &Device, options: &DatapathOptions) -> Result<Datapath, StartError> {
    let udp = |reason| {
        let mut port = open_udp(device, options, None, None);
        port.describe(vec![not_taken(XDP, reason)])
    };
    if options.datapath == DatapathChoice::Udp {
        return Ok(udp(sockets_requested()));
    }
    let facts = Facts::of(device);
    let reason = match options.datapath {
        DatapathChoice::Xdp => match facts
            .why_impossible(options)
            .or_else(|| facts.why_occupied())
        {
            Some(reason) => return Err(refused(device, reason)),
            None => xdp_requested(),
        },
        _ => match facts.why_auto_avoids_xdp(options) {
            Some(reason) => return Ok(udp(reason)),
            None => why_not_sockets(options),
        },
    };
    let driver = facts.offer.as_ref().ok().and_then(|offer| offer.driver);
    let config = xdp_config(device, options, facts.queues(options));
    Ok(Datapath {
        kind: predicted_kind(driver, &config, facts.mtu),
        max_packet_bytes: config.max_packet_bytes(device.interface().addresses.iter()),
        receive_buffer_bytes: config.receive_buffer_bytes(),
        fallback: (options.datapath == DatapathChoice::Auto).then_some(UDP),
        not_taken: vec![not_taken(UDP, reason)],
    })
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

fn open_udp(
    device: &Device,
    options: &DatapathOptions,
    priorities: Option<PriorityMap>,
    qpn_range: Option<QpnRange>,
) -> DatapathPort {
    let interface = device.interface();
    let mut config = UdpPortConfig::new(
        interface.name.clone(),
        interface.index,
        interface.mtu,
        device.known_addresses(),
    );
    config.part = qpn_range;
    if let Some(bytes) = options.udp_receive_buffer_bytes {
        config.receive_buffer_bytes = bytes;
    }
    if let Some(flows) = options.udp_flows {
        config.flow_sockets = flows;
    }
    config.splice = options.udp_splice;
    config.source_port_secret = source_port_secret();
    config.priorities = priorities;
    DatapathPort::Udp(Box::new(UdpPort::new(config)))
}

fn open_xdp(
    device: &Device,
    options: &DatapathOptions,
    priorities: Option<PriorityMap>,
    qpn_range: QpnRange,
) -> Result<DatapathPort, PortError> {
    let queues = match options.xdp_queues {
        Some(queues) => queues.get(),
        None => offer::of_interface(device.interface().index).map_or(1, |offer| offer.queues),
    };
    let mut config = xdp_config(device, options, queues);
    config.redirect.part = Some(qpn_range);
    if options.xdp_priority_tag {
        let map = Priority::Map(priorities.unwrap_or_default());
        config.net.tagging = Tagging::Fixed(PRIORITY_TAG, map);
    }
    let port = XdpPort::open(config)?;
    Ok(DatapathPort::Xdp(Box::new(port)))
}

fn xdp_config(device: &Device, options: &DatapathOptions, queues: u32) -> XdpPortConfig {
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

/// A random secret for source ports. If the system has no random numbers, opening the device has
/// failed already.
fn source_port_secret() -> u16 {
    getrandom::u32().unwrap_or_default() as u16
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

fn refused(device: &Device, why: String) -> StartError {
    StartError::Datapath {
        device: device.name(),
        why,
    }
}

fn not_taken(datapath: &'static str, reason: String) -> NotTaken {
    NotTaken { datapath, reason }
}

/// Why `auto` chooses AF_XDP over sockets.
fn why_not_sockets(options: &DatapathOptions) -> String {
    let reason = if options.roce_v1 {
        SOCKETS_ARE_ROCE_V2
    } else {
        ZERO_COPY_IS_FASTER
    };
    reason.to_owned()
}

fn sockets_requested() -> String {
    "sockets were asked for (ROCE_DATAPATH=udp)".to_owned()
}

fn xdp_requested() -> String {
    "AF_XDP was asked for (ROCE_DATAPATH=xdp)".to_owned()
}

#[cfg(test)]
mod tests;
