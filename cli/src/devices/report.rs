//! What there is to say of each device, and the table of it.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use roce_verbs::{Device, GidEntry, GidKind, Interface, devices, interfaces};
use serde::Serialize;

/// The devices, and the interfaces that are none.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    devices: Vec<Entry>,
    no_devices: Vec<NoDevice>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    interface: String,
    state: &'static str,
    link_mtu: usize,
    /// The largest path MTU whose packets fit in the link's.
    active_path_mtu: usize,
    datapath: &'static str,
    /// The largest transport packet in bytes, from BTH to ICRC.
    max_packet_bytes: usize,
    receive_buffer_bytes: usize,
    segmentation: bool,
    coalescing: bool,
    datapaths_not_taken: Vec<NotTaken>,
    gids: Vec<GidRow>,
}

#[derive(Debug, Serialize)]
struct NotTaken {
    datapath: &'static str,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct GidRow {
    index: u8,
    gid: String,
    kind: &'static str,
}

/// An interface without a device.
#[derive(Debug, Serialize)]
struct NoDevice {
    interface: String,
    reason: &'static str,
}

impl Report {
    /// What this machine has now, in this network namespace.
    pub(super) fn of_this_machine() -> Self {
        Self {
            devices: devices().iter().map(Entry::from).collect(),
            no_devices: interfaces().iter().filter_map(NoDevice::of).collect(),
        }
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
    /// A row for each GID; the first one says what the device is.
    fn add_to(&self, table: &mut Table) {
        let mut whose = [
            self.name.clone(),
            self.interface.clone(),
            self.state.to_owned(),
            self.link_mtu.to_string(),
            self.active_path_mtu.to_string(),
            self.datapath.to_owned(),
        ];
        for gid in &self.gids {
            let which = [gid.index.to_string(), gid.gid.clone(), gid.kind.to_owned()];
            table.add_row(whose.iter().chain(&which));
            whose = Default::default();
        }
    }

    fn explain(&self, out: &mut impl Write) -> io::Result<()> {
        let yes_no = |offered: bool, name: &str| {
            if offered {
                "yes".to_owned()
            } else {
                format!("no, the kernel lacks {name}: packets go one by one")
            }
        };
        writeln!(
            out,
            "\n{}\n  datapath        {}: sockets, which need no privilege",
            self.name, self.datapath
        )?;
        for NotTaken { datapath, reason } in &self.datapaths_not_taken {
            writeln!(out, "  not {datapath:<11} {reason}")?;
        }
        let kib = self.receive_buffer_bytes >> 10;
        writeln!(
            out,
            "  receive buffer  {kib} KiB for each address, as the kernel gives it \
             (net.core.rmem_max)"
        )?;
        let segmentation = yes_no(self.segmentation, "UDP_SEGMENT");
        writeln!(out, "  segmentation    {segmentation}")?;
        let coalescing = yes_no(self.coalescing, "UDP_GRO");
        writeln!(out, "  coalescing      {coalescing}")?;
        writeln!(
            out,
            "  largest packet  {} bytes, from BTH to ICRC",
            self.max_packet_bytes
        )
    }
}

impl From<&Device> for Entry {
    fn from(device: &Device) -> Self {
        let interface = device.interface();
        let datapath = device.datapath();
        let not_taken = datapath.not_taken.iter();
        Self {
            name: device.name(),
            interface: interface.name.clone(),
            // Those that are down are no devices.
            state: "active",
            link_mtu: interface.mtu,
            active_path_mtu: device.active_mtu().bytes(),
            datapath: datapath.name,
            max_packet_bytes: datapath.max_packet_bytes,
            receive_buffer_bytes: datapath.receive_buffer_bytes,
            segmentation: datapath.segmentation,
            coalescing: datapath.coalescing,
            datapaths_not_taken: not_taken
                .map(|&(datapath, reason)| NotTaken { datapath, reason })
                .collect(),
            gids: device.gids().iter().map(GidRow::from).collect(),
        }
    }
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
