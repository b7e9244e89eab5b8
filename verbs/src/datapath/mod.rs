//! The datapath: how a device's packets get to the network and back.

mod choose;
mod device;
pub(crate) mod environment;
mod port;
#[cfg(feature = "xdp")]
mod xdp;
#[cfg(not(feature = "xdp"))]
#[path = "no_xdp.rs"]
mod xdp;

pub(crate) use choose::{open, placeholder};
pub(crate) use port::{DatapathPort, DevicePort, Layers};
pub use roce_port::{NotAccepted, PortError, PortQueue as XdpQueue};
pub use roce_udp::UdpSplice;

use std::num::NonZeroU32;
use std::str::FromStr;

/// The datapath to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatapathChoice {
    /// AF_XDP if the driver reads and writes frames in the process's memory (zero-copy), this
    /// process may use it, and no default route leads through the interface. UDP sockets otherwise.
    /// Sockets are faster than AF_XDP in copy mode, because the kernel segments and coalesces
    /// packets for them.
    #[default]
    Auto,
    /// UDP sockets, which need no privilege.
    Udp,
    /// AF_XDP, in whatever mode the interface allows, or an error.
    Xdp,
}

/// Where the XDP program runs. The program picks RoCE frames out of an interface's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, if it can; otherwise in the kernel's network stack.
    #[default]
    Auto,
    /// In the driver, or an error.
    Native,
    /// In the kernel's network stack, with any driver.
    Generic,
}

/// With AF_XDP, what fills in the UDP checksum of packets over IPv6. RoCE needs none, since the
/// ICRC covers more, but some firewalls drop packets without one. Over IPv4 the checksum is always
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpChecksum {
    /// Nothing: it is 0, as on RoCE NICs.
    #[default]
    None,
    /// The driver, if it offers that; the kernel, if it copies frames; otherwise this process.
    Auto,
    /// This process.
    Software,
}

/// Options for the datapath of a device: `ROCE_DATAPATH`, `ROCE_UDP_BUFFER_MIB`, `ROCE_UDP_FLOWS`,
/// `ROCE_UDP_SPLICE`, `ROCE_LOCAL`, `ROCE_XDP_MODE`, `ROCE_XDP_QUEUES`, `ROCE_XDP_CHECKSUM`,
/// `ROCE_XDP_PRIORITY_TAG` and `ROCE_V1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatapathOptions {
    /// The datapath to use.
    pub datapath: DatapathChoice,
    /// With UDP sockets, the receive buffer to request from the kernel for each address, in bytes;
    /// `None` means the default. The kernel may give less, see `net.core.rmem_max`. UC and UD lose
    /// packets that find it full. A larger buffer does not let RC have more in flight, because the
    /// peer's buffer may be smaller.
    pub udp_receive_buffer_bytes: Option<usize>,
    /// With UDP sockets, the maximum number of sockets for flows; `None` means the default, 128. A
    /// flow is a destination and a source port. Each flow sends from a socket of its own; if there
    /// are not enough sockets, it sends from port 4791. With 0, all flows do.
    pub udp_flows: Option<usize>,
    /// With UDP sockets, which datagrams the kernel sends without copying them.
    pub udp_splice: UdpSplice,
    /// With UDP sockets, whether packets to other devices on this host also go through sockets. Otherwise they
    /// take lanes: memory that two processes of one user share.
    pub sockets_only: bool,
    /// With AF_XDP, where its program runs.
    pub xdp_mode: XdpMode,
    /// With AF_XDP, the number of the interface's queues to use, from number 0 on; `None` means
    /// all. Packets that arrive at other queues are lost, so steer RoCE away from those first
    /// (`ethtool --set-channels`, `--set-rxfh-indir` or `--config-ntuple`).
    pub xdp_queues: Option<NonZeroU32>,
    /// Whether the device supports RoCE v1. If so, the GID table has a v1 entry beside each v2
    /// entry, and AF_XDP is used wherever it is available, because sockets can't carry RoCE v1.
    pub roce_v1: bool,
    /// With AF_XDP, what fills in the UDP checksum of packets over IPv6.
    pub xdp_checksum: XdpChecksum,
    /// With AF_XDP, whether frames carry an 802.1Q tag with VLAN 0 and their priority, for switches
    /// that use the tag rather than the DSCP. Sockets can't do this: the kernel tags only what
    /// leaves through a VLAN device.
    pub xdp_priority_tag: bool,
}

/// How a device's packets get to the network and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// Its kind.
    pub kind: DatapathKind,
    /// The largest packet, from BTH to ICRC, in bytes.
    pub max_packet_bytes: usize,
    /// The size of a receive buffer, in bytes. With sockets, each address has one. With AF_XDP,
    /// each queue has one.
    pub receive_buffer_bytes: usize,
    /// In a prediction: the datapath that is used if the interface refuses this one when it starts,
    /// which can't be predicted without touching the interface. `None` once the datapath has
    /// started.
    pub fallback: Option<&'static str>,
    /// The datapaths that were not chosen, and why.
    pub not_taken: Vec<NotTaken>,
}

/// The kind of a datapath, and what is specific to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatapathKind {
    /// UDP sockets.
    Udp {
        /// Whether the kernel segments packets: one call hands it many packets (GSO).
        segmentation: bool,
        /// Whether the kernel coalesces packets: one call returns many packets (GRO).
        coalescing: bool,
        /// The maximum number of flows that send from sockets of their own, each with its own
        /// source port; 0 if all packets leave from port 4791.
        flow_sockets: usize,
        /// Why the kernel copies every datagram that is sent; `None` if it sends long ones without
        /// a copy.
        why_copied: Option<&'static str>,
        /// Why packets to other devices on this host go through sockets, too; `None` if they take lanes.
        why_no_lanes: Option<String>,
    },
    /// AF_XDP.
    Xdp {
        /// Where its program runs; `None` if only starting it can tell.
        attachment: Option<XdpAttachment>,
        /// Why it does not run in the driver, if that was tried.
        why_not_native: Option<String>,
        /// Whether the driver reads and writes frames in the process's memory; otherwise the kernel
        /// copies. `None` if only starting it can tell.
        zero_copy: Option<bool>,
        /// Why the kernel copies, if it does.
        why_copied: Option<String>,
        /// The number of queues in use.
        queues: usize,
        /// The driver's help for frames that it sends from the process's memory; `None` if the
        /// kernel does not report it.
        tx_features: Option<TxFeatures>,
    },
}

/// A driver's help for frames that it sends from the process's memory (AF_XDP TX metadata,
/// from Linux 6.8 on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxFeatures {
    /// The driver can fill in the UDP checksum: see [`XdpChecksum`].
    pub checksum: bool,
    /// The driver can report when it has sent a frame. This library does not use that.
    pub timestamp: bool,
}

/// Where AF_XDP's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpAttachment {
    /// In the driver.
    Native,
    /// In the kernel's network stack.
    Generic,
}

/// A datapath that was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// Its name: `udp` or `xdp`.
    pub datapath: &'static str,
    /// Why, and what would change the choice.
    pub reason: String,
}

impl Datapath {
    /// Its name: `udp` or `xdp`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            DatapathKind::Udp { .. } => UDP,
            DatapathKind::Xdp { .. } => XDP,
        }
    }
}

impl XdpAttachment {
    /// Its name: `native` or `generic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => NATIVE,
            Self::Generic => GENERIC,
        }
    }
}

const UDP: &str = "udp";
const XDP: &str = "xdp";
const NATIVE: &str = "native";
const GENERIC: &str = "generic";

/// Parses the names of the variants.
macro_rules! from_names {
    ($type:ident: $($name:expr => $variant:ident),*) => {
        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                value_by_name(text, [$(($name, Self::$variant)),*])
            }
        }
    };
}

from_names!(DatapathChoice: "auto" => Auto, UDP => Udp, XDP => Xdp);
from_names!(XdpChecksum: "none" => None, "auto" => Auto, "software" => Software);
from_names!(XdpMode: "auto" => Auto, NATIVE => Native, GENERIC => Generic);

fn value_by_name<T: Copy>(text: &str, values: [(&str, T); 3]) -> Result<T, String> {
    let found = values.iter().find(|(name, _)| *name == text);
    let [(a, _), (b, _), (c, _)] = values;
    found
        .map(|&(_, value)| value)
        .ok_or_else(|| format!("it must be {a}, {b} or {c}"))
}
