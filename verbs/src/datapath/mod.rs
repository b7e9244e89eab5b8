//! How a device's packets get to the network and back.

mod choose;
mod device;
pub(crate) mod environment;
mod port;
mod reasons;

pub(crate) use choose::{idle, open};
pub(crate) use port::{DevicePort, WakeUps};
pub use roce_port::PortError;

use std::num::NonZeroU32;
use std::str::FromStr;

/// Which datapath a device is to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatapathChoice {
    /// AF_XDP where the driver reads and writes frames in our memory (zero-copy), this
    /// process may use it, and no default route leads through the interface; UDP sockets
    /// everywhere else. In copy mode sockets are faster: the kernel cuts up and joins many
    /// packets at a time for them.
    #[default]
    Auto,
    /// UDP sockets, which need no privilege.
    Udp,
    /// AF_XDP, in whatever mode the interface allows, or an error.
    Xdp,
}

/// Where the program runs that takes our frames out of an interface's others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, if it can; else in the kernel.
    #[default]
    Auto,
    /// In the driver, or an error.
    Native,
    /// In the kernel, with any driver.
    Generic,
}

/// With AF_XDP, who fills in the UDP checksum of packets over IPv6. RoCE needs none, the
/// ICRC covers more; some firewalls drop what comes without. Over IPv4 none is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpChecksum {
    /// Nobody: it is 0, as RoCE NICs have it.
    #[default]
    None,
    /// The driver, if it offers that, or the kernel where that copies frames; else this
    /// process.
    Auto,
    /// This process.
    Software,
}

/// How the datapath of a device is chosen: `ROCE_DATAPATH`, `ROCE_UDP_BUFFER_MIB`,
/// `ROCE_XDP_MODE`, `ROCE_XDP_QUEUES`, `ROCE_XDP_CHECKSUM`, `ROCE_XDP_PRIORITY_TAG` and
/// `ROCE_V1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatapathOptions {
    /// Which is to be taken.
    pub datapath: DatapathChoice,
    /// With UDP sockets, bytes of receive buffer to ask of the kernel for each address, if
    /// not as many as usual. It may give less, see `net.core.rmem_max`. UC and UD lose what
    /// finds it full. RC has no more under way for it: the peer may have no more room.
    pub udp_receive_buffer_bytes: Option<usize>,
    /// With AF_XDP, where its program is to run.
    pub xdp_mode: XdpMode,
    /// With AF_XDP, how many of the interface's queues are used, from number 0 on; all of
    /// them, if not said. What arrives at others is lost: steer RoCE away from them first
    /// (`ethtool --set-channels`, `--set-rxfh-indir` or `--config-ntuple`).
    pub xdp_queues: Option<NonZeroU32>,
    /// Whether there is RoCE v1, too: the GID table has an entry for it beside each one for
    /// RoCEv2, and AF_XDP is taken wherever it can be had, as sockets can't carry it.
    pub roce_v1: bool,
    /// With AF_XDP, who fills in the UDP checksum of packets over IPv6.
    pub xdp_checksum: XdpChecksum,
    /// With AF_XDP, whether frames carry an 802.1Q tag of VLAN 0 that says their priority.
    /// For switches that go by it, and not by the DSCP. Sockets can't: the kernel tags what
    /// leaves by a VLAN's device.
    pub xdp_priority_tag: bool,
}

/// How a device's packets get to the network and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datapath {
    /// What it is.
    pub kind: DatapathKind,
    /// The largest packet, from BTH to ICRC, in bytes.
    pub max_packet_bytes: usize,
    /// Bytes that wait for the device until it takes them: of each address with sockets,
    /// of each queue with AF_XDP.
    pub receive_buffer_bytes: usize,
    /// In a forecast: what is taken if the interface refuses this one when it starts, which
    /// can't be known without touching it. Nothing once the datapath has started.
    pub fallback: Option<&'static str>,
    /// The datapaths that were not taken, and why.
    pub not_taken: Vec<NotTaken>,
}

/// A datapath, and what is to know of it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatapathKind {
    /// UDP sockets.
    Udp {
        /// Whether packets are handed to the kernel many at a time.
        segmentation: bool,
        /// Whether the kernel hands packets over many at a time.
        coalescing: bool,
    },
    /// AF_XDP.
    Xdp {
        /// Where its program runs; nothing while only starting it would tell.
        attachment: Option<XdpAttachment>,
        /// Why it does not run in the driver, if that was tried.
        why_not_native: Option<String>,
        /// Whether the driver reads and writes frames in our memory; else the kernel copies.
        /// Nothing while only starting it would tell.
        zero_copy: Option<bool>,
        /// Why the kernel copies, if it does.
        why_copied: Option<String>,
        /// Queues in use.
        queues: usize,
        /// What the driver offers to do to frames in our memory that it sends; nothing if the
        /// kernel does not tell.
        tx_features: Option<TxFeatures>,
    },
}

/// What a driver offers to do to frames in our memory that it sends (AF_XDP TX metadata, from
/// Linux 6.8 on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxFeatures {
    /// To fill in their UDP checksum: see [`XdpChecksum`].
    pub checksum: bool,
    /// To tell when they have left. Nothing here asks for it.
    pub timestamp: bool,
}

/// A queue that AF_XDP uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpQueue {
    /// Its number, from 0.
    pub number: u32,
    /// Whether the driver reads and writes its frames in our memory, as its socket answers.
    pub zero_copy: bool,
    /// Whether its memory is registered together with that of the first queue.
    pub shares_memory: bool,
    /// What it and its socket have counted, by name.
    pub counters: Vec<(&'static str, u64)>,
}

/// Where AF_XDP's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpAttachment {
    /// In the driver.
    Native,
    /// In the kernel.
    Generic,
}

/// A datapath that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// Its name: `udp` or `xdp`.
    pub datapath: &'static str,
    /// Why, and what would change that.
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
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

const UDP: &str = "udp";
const XDP: &str = "xdp";

/// The value whose name `text` is.
fn named<T: Copy>(text: &str, values: [(&str, T); 3]) -> Result<T, String> {
    let found = values.iter().find(|(name, _)| *name == text);
    let [(a, _), (b, _), (c, _)] = values;
    found
        .map(|&(_, value)| value)
        .ok_or_else(|| format!("it must be {a}, {b} or {c}"))
}

impl FromStr for DatapathChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(
            text,
            [("auto", Self::Auto), (UDP, Self::Udp), (XDP, Self::Xdp)],
        )
    }
}

impl FromStr for XdpChecksum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(
            text,
            [
                ("none", Self::None),
                ("auto", Self::Auto),
                ("software", Self::Software),
            ],
        )
    }
}

impl FromStr for XdpMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [native, generic] = [XdpAttachment::Native, XdpAttachment::Generic].map(|a| a.name());
        named(
            text,
            [
                ("auto", Self::Auto),
                (native, Self::Native),
                (generic, Self::Generic),
            ],
        )
    }
}
