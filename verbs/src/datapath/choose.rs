//! Chooses a device's datapath.

use super::port::source_port_secret;
use super::{
    Datapath, DatapathChoice, DatapathOptions, DatapathPort, DevicePort, Layers, NotTaken, UDP,
    XDP, xdp,
};
use crate::device::Device;
use crate::error::StartError;
use roce_stack::{PriorityMap, QpnRange};
use roce_udp::{UdpPort, UdpPortConfig};

/// Why sockets are not used where `auto` chooses AF_XDP.
const ZERO_COPY_IS_FASTER: &str =
    "AF_XDP with zero-copy is faster; ROCE_DATAPATH=udp selects sockets";
/// Why sockets are not used with RoCE v1.
const SOCKETS_ARE_ROCE_V2: &str = "RoCE v1 was asked for (ROCE_V1=1), which sockets can't carry";

/// Why there are no lanes, if they are not wanted.
const LANES_OFF: &str = "sockets were asked for (ROCE_LOCAL=off)";

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
        choice => match xdp::open(device, options, priorities, qpn_range) {
            Ok(port) => return Ok((port, vec![not_taken(UDP, why_not_sockets(options))])),
            Err(reason) if choice == DatapathChoice::Xdp => return Err(refused(device, reason)),
            Err(reason) => reason,
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
    let reason = match options.datapath {
        DatapathChoice::Udp => sockets_requested(),
        choice => match xdp::predict(device, options) {
            Ok(mut datapath) => {
                datapath.not_taken = vec![not_taken(UDP, why_not_sockets(options))];
                return Ok(datapath);
            }
            Err(reason) if choice == DatapathChoice::Xdp => return Err(refused(device, reason)),
            Err(reason) => reason,
        },
    };
    Ok(open_udp(device, options, None, None).describe(vec![not_taken(XDP, reason)]))
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
    let lanes = match options.sockets_only {
        true => Err(LANES_OFF.to_owned()),
        false => Ok(None),
    };
    DatapathPort::Udp(Box::new(UdpPort::new(config)), lanes)
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

/// Why AF_XDP is used rather than sockets.
pub(super) fn why_not_sockets(options: &DatapathOptions) -> String {
    let reason = match options.datapath {
        DatapathChoice::Xdp => "AF_XDP was asked for (ROCE_DATAPATH=xdp)",
        _ if options.roce_v1 => SOCKETS_ARE_ROCE_V2,
        _ => ZERO_COPY_IS_FASTER,
    };
    reason.to_owned()
}

fn sockets_requested() -> String {
    "sockets were asked for (ROCE_DATAPATH=udp)".to_owned()
}
