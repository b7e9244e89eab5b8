//! The facts about each device, and their table.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use roce_verbs::Device;
use roce_verbs::datapath::{Datapath, DatapathKind, DatapathOptions, TxFeatures, XdpAttachment};
use roce_verbs::device::{
    GidEntry, GidKind, Interface, OpenError, StartError, devices, interfaces,
};
use serde::Serialize;

/// The devices, and the interfaces without one.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    devices: Vec<Entry>,
    no_devices: Vec<NoDevice>,
}

#[derive(Debug, Default, Serialize)]
struct Entry {
    name: String,
    interface: String,
    state: &'static str,
    link_mtu: usize,
    /// The largest path MTU whose packets fit in the link's.
    active_path_mtu: usize,
    /// `udp` or `xdp`: the datapath that the device uses if it is opened now. `none`, if none
    /// works.
    datapath: &'static str,
    /// The datapath to use if the interface refuses the first one. Only starting the first one
    /// shows whether the interface refuses it.
    fallback: Option<&'static str>,
    /// Why no datapath works.
    error: Option<String>,
    /// The largest transport packet in bytes, from BTH to ICRC.
    max_packet_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    /// For UDP sockets.
    segmentation: Option<bool>,
    coalescing: Option<bool>,
    /// The most flows with a socket of their own.
    flow_sockets: Option<usize>,
    /// Why the kernel copies every datagram that is sent; absent if it sends long ones without a
    /// copy.
    why_copied: Option<&'static str>,
    /// Whether packets to other devices on this host take lanes.
    has_lanes: Option<bool>,
    why_no_lanes: Option<String>,
    xdp: Option<Xdp>,
    datapaths_not_taken: Vec<NotTaken>,
    /// `yes`, or why RoCE v1 is not available.
    roce_v1: &'static str,
    gids: Vec<GidRow>,
}

/// The facts about AF_XDP.
#[derive(Debug, Serialize)]
struct Xdp {
    /// `native`, `generic`, or `unknown` until the datapath starts.
    attachment: &'static str,
    why_not_native: Option<String>,
    /// `None` if unknown until the datapath starts.
    zero_copy: Option<bool>,
    why_copied: Option<String>,
    queues: usize,
    /// The driver's transmit features for frames in our memory. `None` if the kernel does not
    /// report them.
    tx_features: Option<Vec<&'static str>>,
}

#[derive(Debug, Serialize)]
struct NotTaken {
    datapath: &'static str,
    reason: String,
}

#[derive(Debug, Serialize)]
struct GidRow {
    index: u8,
    gid: String,
    kind: &'static str,
    /// In the Linux kernel's format.
    version: String,
}

/// An interface without a device.
#[derive(Debug, Serialize)]
struct NoDevice {
    interface: String,
    reason: &'static str,
}

impl Report {
    /// The devices of this machine in this network namespace.
    pub(super) fn of_this_machine(options: &DatapathOptions) -> Result<Self, OpenError> {
        let entry = |device: &Device| {
            let gids = device.gids_with(options);
            let entry = Entry::new(device, device.datapath(options), &gids);
            Entry {
                roce_v1: roce_v1(options.roce_v1, entry.datapath),
                ..entry
            }
        };
        Ok(Self {
            devices: devices()?.iter().map(entry).collect(),
            no_devices: interfaces()?.iter().filter_map(NoDevice::of).collect(),
        })
    }

    pub(super) fn write(&self, out: &mut impl Write, verbose: bool) -> io::Result<()> {
        if self.devices.is_empty() {
            writeln!(out, "no device: no interface is up and has an address")?;
        } else {
            for line in self.table().lines() {
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        if !verbose {
            return Ok(());
        }
        for device in &self.devices {
            device.explain(out)?;
        }
        for NoDevice { interface, reason } in &self.no_devices {
            writeln!(out, "\n{interface} is no device: {reason}")?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "DEVICE",
            "INTERFACE",
            "STATE",
            "LINK MTU",
            "PATH MTU",
            "DATAPATH",
            "INDEX",
            "GID",
            "KIND",
            "VERSION",
        ]);
        for number in [3, 4, 6] {
            if let Some(column) = table.column_mut(number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for device in &self.devices {
            device.add_to(&mut table);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table
    }
}

impl Entry {
    /// Adds a row for each GID; the first row describes the device.
    fn add_to(&self, table: &mut Table) {
        let mut whose = [
            self.name.clone(),
            self.interface.clone(),
            self.state.to_owned(),
            self.link_mtu.to_string(),
            self.active_path_mtu.to_string(),
            match self.fallback {
                None => self.datapath.to_owned(),
                Some(fallback) => format!("{} or {fallback}", self.datapath),
            },
        ];
        for gid in &self.gids {
            let which = [
                gid.index.to_string(),
                gid.gid.clone(),
                gid.kind.to_owned(),
                gid.version.clone(),
            ];
            table.add_row(whose.iter().chain(&which));
            whose = Default::default();
        }
    }

    fn explain(&self, out: &mut impl Write) -> io::Result<()> {
        let what = match (self.datapath, &self.error) {
            (_, Some(error)) => format!("none: {error}"),
            ("xdp", None) if self.fallback.is_some() => {
                "would try xdp (AF_XDP), and take udp if the interface refuses".to_owned()
            }
            ("xdp", None) => "xdp: AF_XDP".to_owned(),
            (name, None) => format!("{name}: sockets, which need no privilege"),
        };
        writeln!(out, "\n{}\n  datapath        {what}", self.name)?;
        for NotTaken { datapath, reason } in &self.datapaths_not_taken {
            writeln!(out, "  not {datapath:<11} {reason}")?;
        }
        if let Some(xdp) = &self.xdp {
            xdp.explain(out)?;
        }
        writeln!(out, "  RoCE v1         {}", self.roce_v1)?;
        if let Some(bytes) = self.receive_buffer_bytes {
            let whose = match self.xdp {
                Some(_) => "queue",
                None => "address, as the kernel gives it (net.core.rmem_max)",
            };
            writeln!(
                out,
                "  receive buffer  {} KiB for each {whose}",
                bytes >> 10
            )?;
        }
        let offloads = [
            ("segmentation", self.segmentation, "UDP_SEGMENT"),
            ("coalescing", self.coalescing, "UDP_GRO"),
        ];
        for (what, offered, name) in offloads {
            match offered {
                Some(true) => writeln!(out, "  {what:<14}  yes")?,
                Some(false) => writeln!(
                    out,
                    "  {what:<14}  no, the kernel lacks {name}: packets go one by one"
                )?,
                None => {}
            }
        }
        match self.flow_sockets {
            Some(0) => writeln!(
                out,
                "  source ports    4791 only (ROCE_UDP_FLOWS is below 4)"
            )?,
            Some(most) => writeln!(
                out,
                "  source ports    one for each flow, for up to {most} flows"
            )?,
            None => {}
        }
        match (self.flow_sockets, self.why_copied) {
            (None, _) => {}
            (_, None) => writeln!(
                out,
                "  long datagrams  can leave without a copy by the kernel"
            )?,
            (_, Some(why)) => writeln!(out, "  long datagrams  copied by the kernel: {why}")?,
        }
        match (self.has_lanes, &self.why_no_lanes) {
            (None, _) => {}
            (_, None) => writeln!(
                out,
                "  on this host    packets to this user's processes go through shared memory"
            )?,
            (_, Some(why)) => writeln!(out, "  on this host    packets go through sockets: {why}")?,
        }
        match self.max_packet_bytes {
            Some(bytes) => writeln!(out, "  largest packet  {bytes} bytes, from BTH to ICRC"),
            None => Ok(()),
        }
    }

    fn new(device: &Device, datapath: Result<Datapath, StartError>, gids: &[GidEntry]) -> Self {
        let interface = device.interface();
        let entry = Self {
            name: device.name(),
            interface: interface.name.clone(),
            // Interfaces that are down have no device.
            state: "active",
            link_mtu: interface.mtu,
            active_path_mtu: device.active_mtu().bytes(),
            datapath: "none",
            roce_v1: "no",
            gids: gids.iter().map(GidRow::from).collect(),
            ..Self::default()
        };
        match datapath {
            Ok(datapath) => entry.taking(datapath),
            Err(error) => Self {
                error: Some(error.to_string()),
                ..entry
            },
        }
    }

    fn taking(mut self, datapath: Datapath) -> Self {
        self.datapath = datapath.name();
        self.fallback = datapath.fallback;
        self.max_packet_bytes = Some(datapath.max_packet_bytes);
        self.receive_buffer_bytes = Some(datapath.receive_buffer_bytes);
        match datapath.kind {
            DatapathKind::Udp {
                segmentation,
                coalescing,
                flow_sockets,
                why_copied,
                why_no_lanes,
            } => {
                self.segmentation = Some(segmentation);
                self.coalescing = Some(coalescing);
                self.flow_sockets = Some(flow_sockets);
                self.why_copied = why_copied;
                self.has_lanes = Some(why_no_lanes.is_none());
                self.why_no_lanes = why_no_lanes;
            }
            DatapathKind::Xdp {
                attachment,
                why_not_native,
                zero_copy,
                why_copied,
                queues,
                tx_features,
            } => {
                self.xdp = Some(Xdp {
                    attachment: attachment.map_or("unknown", XdpAttachment::name),
                    why_not_native,
                    zero_copy,
                    why_copied,
                    queues,
                    tx_features: tx_features.map(names_of),
                });
            }
            _ => {}
        }
        let not_taken = datapath.not_taken.into_iter();
        self.datapaths_not_taken = not_taken
            .map(
                |roce_verbs::datapath::NotTaken { datapath, reason }| NotTaken { datapath, reason },
            )
            .collect();
        self
    }
}

/// Whether RoCE v1 is available, and if not, why.
fn roce_v1(asked_for: bool, datapath: &str) -> &'static str {
    match (asked_for, datapath) {
        (false, _) => "no: it needs ROCE_V1=1 and AF_XDP",
        (true, "xdp") => "yes",
        (true, _) => "no: sockets can't carry it, so GID indices of it are refused",
    }
}

impl Xdp {
    fn explain(&self, out: &mut impl Write) -> io::Result<()> {
        let attached = match (self.attachment, &self.why_not_native) {
            ("native", _) => "native, in the driver".to_owned(),
            ("generic", None) => "generic, in the kernel".to_owned(),
            ("generic", Some(why)) => format!("generic, in the kernel (not native: {why})"),
            _ => "in the driver if it can, else in the kernel: known once it starts".to_owned(),
        };
        writeln!(out, "  attachment      {attached}")?;
        let memory = match (self.zero_copy, &self.why_copied) {
            (Some(true), _) => "zero-copy".to_owned(),
            (Some(false), Some(why)) => format!("copy: {why}"),
            (Some(false), None) => "copy".to_owned(),
            (None, _) => "zero-copy if the driver can: known once it starts".to_owned(),
        };
        writeln!(out, "  memory          {memory}")?;
        writeln!(out, "  queues          {}", self.queues)?;
        let features = match self.tx_features.as_deref() {
            None => "unknown: the kernel does not report them".to_owned(),
            Some([]) => "none".to_owned(),
            Some(some) => some.join(", "),
        };
        writeln!(out, "  sent frames     the driver's offers: {features}")
    }
}

fn names_of(features: TxFeatures) -> Vec<&'static str> {
    let all = [
        ("checksum", features.checksum),
        ("timestamp", features.timestamp),
    ];
    let offered = all.into_iter().filter(|(_, offered)| *offered);
    offered.map(|(name, _)| name).collect()
}

impl From<&GidEntry> for GidRow {
    fn from(entry: &GidEntry) -> Self {
        Self {
            index: entry.index,
            gid: entry.gid.to_string(),
            kind: match entry.gid.kind() {
                GidKind::LinkLocal => "IPv6 link-local",
                GidKind::Ipv4 => "IPv4",
                GidKind::Ipv6 => "IPv6",
            },
            version: entry.version.to_string(),
        }
    }
}

impl NoDevice {
    /// Why the interface has no device, if it has none.
    fn of(interface: &Interface) -> Option<Self> {
        let reason = match (interface.up, interface.addresses.is_empty()) {
            (true, false) => return None,
            (false, _) => "the interface is down (`ip link set up`)",
            (true, true) => "the interface has no address (`ip address add`)",
        };
        Some(Self {
            interface: interface.name.clone(),
            reason,
        })
    }
}

#[cfg(test)]
mod tests;
