//! Global identifiers: the 16 bytes by which verbs name an address (RoCEv2 Annex
//! A17.4.1.1).

use core::fmt;
use core::str::FromStr;
use roce_stack::RoceVersion;
use std::net::{IpAddr, Ipv6Addr};

/// A GID: an IPv6 address, or an IPv4 address as an IPv4-mapped IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

/// The kind of address that a GID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GidKind {
    /// A link-local IPv6 address.
    LinkLocal,
    /// An IPv4 address.
    Ipv4,
    /// Any other IPv6 address.
    Ipv6,
}

/// An entry of a device's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The index of the entry in the table.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
    /// The RoCE version of the packets of QPs that use this entry.
    // rule: CA17-26-gid-type
    pub version: RoceVersion,
}

impl Gid {
    /// The address that packets to or from this GID carry.
    pub fn ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// Its kind of address.
    pub fn kind(self) -> GidKind {
        match self.ip() {
            IpAddr::V4(_) => GidKind::Ipv4,
            IpAddr::V6(v6) if v6.is_unicast_link_local() => GidKind::LinkLocal,
            IpAddr::V6(_) => GidKind::Ipv6,
        }
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            // rule: A17.4.1.1-gid-ipv4
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            // rule: A17.4.1.1-gid-ipv6
            IpAddr::V6(v6) => v6.octets(),
        })
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

debug_as_display!(Gid);

/// The error for text that is not a GID.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseGidError(String);

impl fmt::Display for ParseGidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a GID: write an IPv6 or IPv4 address",
            self.0
        )
    }
}

debug_as_display!(ParseGidError);

impl std::error::Error for ParseGidError {}

impl FromStr for Gid {
    type Err = ParseGidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<IpAddr>()
            .map(Self::from)
            .map_err(|_| ParseGidError(text.to_owned()))
    }
}

/// The GID table of an open device. Programs read an index once, so an entry keeps its index as
/// long as the interface has its address, even if other addresses are added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GidTable {
    /// The entries, by index. `None` is a free slot.
    slots: Vec<Option<(Gid, RoceVersion)>>,
    versions: &'static [RoceVersion],
}

/// The RoCE versions, in the order of a GID's entries.
const VERSIONS: [RoceVersion; 2] = [RoceVersion::V1, RoceVersion::V2];

impl GidTable {
    /// Builds the table for an interface's addresses: link-local first, then IPv4, then other IPv6,
    /// in the order of the kernel's RoCE devices. With RoCE v1, each GID has an entry for v1 before
    /// the one for v2, as in the kernel.
    // rule: A17.4.3-gid-table, A16-gid-types
    pub(crate) fn new(addresses: &[IpAddr], roce_v1: bool) -> Self {
        let mut table = Self {
            slots: Vec::new(),
            versions: if roce_v1 { &VERSIONS } else { &VERSIONS[1..] },
        };
        table.update(addresses);
        table
    }

    /// Updates the table to `addresses`, the current addresses of the interface. A new address gets
    /// the first free index. If the table is full, it gets none.
    pub(crate) fn update(&mut self, addresses: &[IpAddr]) {
        let mut gids: Vec<Gid> = addresses.iter().copied().map(Gid::from).collect();
        gids.sort_by_key(|gid| match gid.kind() {
            GidKind::LinkLocal => 0,
            GidKind::Ipv4 => 1,
            GidKind::Ipv6 => 2,
        });
        for slot in &mut self.slots {
            *slot = slot.filter(|(gid, _)| gids.contains(gid));
        }
        let versions = self.versions.iter().copied();
        for entry in gids
            .into_iter()
            .flat_map(|gid| versions.clone().map(move |version| (gid, version)))
        {
            if self.slots.contains(&Some(entry)) {
                continue;
            }
            if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
                *free = Some(entry);
            } else if self.slots.len() <= usize::from(u8::MAX) {
                self.slots.push(Some(entry));
            }
        }
    }

    pub(crate) fn entries(&self) -> Vec<GidEntry> {
        (0..=u8::MAX)
            .zip(&self.slots)
            .filter_map(|(index, slot)| {
                let (gid, version) = (*slot)?;
                Some(GidEntry {
                    index,
                    gid,
                    version,
                })
            })
            .collect()
    }

    /// The addresses that have entries, sorted.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let gids = self.slots.iter().flatten().map(|(gid, _)| gid.ip());
        let mut addresses: Vec<IpAddr> = gids.collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    pub(crate) fn get(&self, index: u8) -> Option<(Gid, RoceVersion)> {
        *self.slots.get(usize::from(index))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: A17.4.1.1-gid-ipv6, A17.4.3-gid-table
    // trap: gid-table
    #[test]
    fn the_table_begins_with_link_local() {
        let addresses = ["2001:db8::1", "10.0.0.1", "fe80::1"].map(|a| a.parse().expect("valid"));
        let gids: Vec<String> = GidTable::new(&addresses, false)
            .entries()
            .iter()
            .map(|e| e.gid.to_string())
            .collect();
        assert_eq!(gids, ["fe80::1", "::ffff:10.0.0.1", "2001:db8::1"]);
    }

    // trap: gid-table
    #[test]
    fn an_entry_keeps_its_index() {
        let [link_local, one, two] =
            ["fe80::1", "10.0.0.1", "10.0.0.2"].map(|a| a.parse().expect("valid"));
        let mut table = GidTable::new(&[one], false);
        let indices = |table: &GidTable| -> Vec<_> {
            let entries = table.entries();
            entries.iter().map(|e| (e.index, e.gid.ip())).collect()
        };
        // An interface gets its link-local address about a second after its link.
        table.update(&[link_local, one]);
        assert_eq!(indices(&table), [(0, one), (1, link_local)]);
        table.update(&[link_local]);
        assert_eq!(indices(&table), [(1, link_local)]);
        assert_eq!(table.get(0), None);
        table.update(&[link_local, two]);
        assert_eq!(indices(&table), [(0, two), (1, link_local)]);
        assert_eq!(table.get(2), None);
    }

    /// The table matches what `ibv_devinfo -v` shows for devices that have both versions.
    // shows: A16-gid-types, CA17-26-gid-type
    #[test]
    fn roce_v1_has_entries_beside_those_of_v2() {
        let [link_local, one, two] =
            ["fe80::1", "10.0.0.1", "10.0.0.2"].map(|a| a.parse().expect("valid"));
        let mut table = GidTable::new(&[one, link_local], true);
        let shown = |table: &GidTable| -> Vec<String> {
            let entries = table.entries();
            let show = |e: &GidEntry| format!("{} {} {}", e.index, e.gid, e.version);
            entries.iter().map(show).collect()
        };
        let both = [
            "0 fe80::1 IB/RoCE v1",
            "1 fe80::1 RoCE v2",
            "2 ::ffff:10.0.0.1 IB/RoCE v1",
            "3 ::ffff:10.0.0.1 RoCE v2",
        ];
        assert_eq!(shown(&table), both);
        table.update(&[link_local, two]);
        assert_eq!(
            shown(&table)[2..],
            ["2 ::ffff:10.0.0.2 IB/RoCE v1", "3 ::ffff:10.0.0.2 RoCE v2",]
        );
        assert_eq!(table.get(2), Some((two.into(), RoceVersion::V1)));
        table.update(&[two]);
        assert_eq!(table.get(1), None);
        let without = GidTable::new(&[one, link_local], false).entries();
        assert!(without.iter().all(|entry| entry.version == RoceVersion::V2));
    }

    #[test]
    fn entries_are_unique_and_limited_in_number() {
        let one: IpAddr = "10.0.0.1".parse().expect("valid");
        assert_eq!(GidTable::new(&[one, one], false).entries().len(), 1);
        let many: Vec<IpAddr> = (0..300_u32).map(|n| IpAddr::V4(n.into())).collect();
        let mut table = GidTable::new(&many, false);
        assert_eq!(table.entries().len(), 256);
        table.update(&many[100..]);
        assert_eq!(table.entries().len(), 200);
    }

    // shows: A17.4.1.1-gid-ipv4
    // trap: gid-table
    #[test]
    fn a_mapped_gid_is_an_ipv4_address() {
        let gid: Gid = "10.0.0.1".parse().expect("valid");
        assert_eq!(gid.kind(), GidKind::Ipv4);
        assert_eq!(gid.ip(), "10.0.0.1".parse::<IpAddr>().expect("valid"));
        assert_eq!("::ffff:10.0.0.1".parse(), Ok(gid));
        assert!("roce".parse::<Gid>().is_err());
    }
}
