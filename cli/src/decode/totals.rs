//! The counters of a whole capture.

use std::collections::BTreeMap;

use super::capture::Timestamp;
use super::packet::{Icrc, NotRoce, RocePacket};

#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) records: u64,
    /// Bytes of the packets in them, on the wire.
    pub(super) wire_bytes: u64,
    /// RoCE packets that pass the filters, and so are shown and counted.
    pub(super) packets: u64,
    /// Records that contain several of them.
    pub(super) super_packets: u64,
    /// RoCE packets by their ICRC.
    pub(super) icrc_ok: u64,
    pub(super) icrc_bad: u64,
    pub(super) icrc_cut: u64,
    pub(super) icrc_missing: u64,
    /// RoCE packets in a tunnel, by its encapsulations.
    pub(super) tunnels: BTreeMap<String, u64>,
    /// RoCE packets that violate the rules of their opcode.
    pub(super) malformed: u64,
    /// RoCE packets that the filters reject.
    pub(super) filtered: u64,
    pub(super) other: NotRoceCounts,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
}

/// Records that are not RoCE packets, by reason: see [`NotRoce`].
#[derive(Clone, Debug, Default)]
pub(super) struct NotRoceCounts {
    pub(super) foreign: u64,
    pub(super) extensions: u64,
    pub(super) fragment: u64,
    pub(super) malformed: u64,
    pub(super) cut: u64,
    pub(super) link_type: u64,
    /// One of the unsupported link types.
    pub(super) unknown_link_type: Option<u16>,
}

impl NotRoceCounts {
    pub(super) fn count(&mut self, other: &NotRoce) {
        match other {
            NotRoce::Foreign(_) => self.foreign += 1,
            NotRoce::Extensions => self.extensions += 1,
            NotRoce::Fragment(_) => self.fragment += 1,
            NotRoce::Malformed(_) => self.malformed += 1,
            NotRoce::Cut => self.cut += 1,
            NotRoce::LinkType(link_type) => {
                self.link_type += 1;
                self.unknown_link_type = Some(*link_type);
            }
        }
    }

    pub(super) fn sum(&self) -> u64 {
        let lost = self.fragment + self.malformed + self.cut + self.link_type;
        self.foreign + self.extensions + lost
    }
}

impl Totals {
    pub(super) fn count_record(&mut self, time: Option<Timestamp>, wire_len: u32) {
        self.records += 1;
        self.wire_bytes += u64::from(wire_len);
        self.first = self.first.or(time);
        self.last = time.or(self.last);
    }

    fn count_tunnel(&mut self, packet: &RocePacket) {
        let names: Vec<_> = packet.envelope.tunnel.iter().map(|e| e.name).collect();
        if !names.is_empty() {
            *self.tunnels.entry(names.join(", ")).or_default() += 1;
        }
    }

    pub(super) fn count(&mut self, packet: &RocePacket) {
        self.packets += 1;
        self.count_tunnel(packet);
        let is_first_of_many = packet.segment.is_some_and(|segment| segment.index == 1);
        self.super_packets += u64::from(is_first_of_many);
        self.malformed += u64::from(packet.error.is_some());
        let by_icrc = match packet.icrc {
            Icrc::Ok(_) => &mut self.icrc_ok,
            Icrc::Bad(_) => &mut self.icrc_bad,
            Icrc::Cut => &mut self.icrc_cut,
            Icrc::Missing => &mut self.icrc_missing,
        };
        *by_icrc += 1;
    }
}
