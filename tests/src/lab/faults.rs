//! Packets lost, delayed, reordered, duplicated and corrupted on purpose.

use serde_json::Value;
use std::time::Duration;

use super::namespace::Namespace;
use super::network::{GUEST_INTERFACE, GUEST_SIDE, HOST_SIDE};
use super::{Lab, LabError};

const TABLE: &str = "roce_lab";
/// The guest's device through which arriving packets are redirected, so that netem, which works on
/// departing packets, applies to them.
const DETOUR: &str = "ifb0";

/// A direction of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the namespace to the guest.
    ToGuest,
    /// From the guest to the namespace.
    ToHost,
}

/// Which RoCE packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// None.
    None,
    /// Each with this probability in thousandths, independently. The kernel's random numbers have
    /// no seed, so runs are not reproducible.
    PerMille(u32),
    /// Each of the first `packets` with this probability in thousandths, and no later one.
    EarlyPerMille {
        /// The number of packets that may be dropped.
        packets: u32,
        /// The probability.
        per_mille: u32,
    },
    /// The first, and then every Nth; reproducible.
    EveryNth(u32),
    /// The first `count` packets whose BTH opcode is `opcode`, and no others.
    First {
        /// The whole opcode byte: 0x11 is an RC acknowledge (IBTA 1.7, 9.2.1).
        opcode: u8,
        /// The number of packets to drop.
        count: u32,
    },
}

impl Drops {
    /// The part of an nftables rule that selects them; `None` for no rule at all.
    fn rule(self) -> Result<Option<String>, LabError> {
        let wrong = |what: &str| Err(LabError::new(format!("{self:?}: {what}")));
        match self {
            Self::None | Self::First { count: 0, .. } => Ok(None),
            Self::PerMille(n) | Self::EarlyPerMille { per_mille: n, .. } if n > 1000 => {
                wrong("a probability is at most 1000 thousandths")
            }
            // nftables rejects a comparison that is always true.
            Self::PerMille(1000) | Self::EveryNth(1) => Ok(Some(String::new())),
            Self::PerMille(n) => Ok(Some(format!("numgen random mod 1000 < {n}"))),
            Self::EarlyPerMille { packets, per_mille } => {
                let by_chance = Self::PerMille(per_mille).rule()?;
                Ok(by_chance.map(|rule| format!("{} {rule}", first(packets))))
            }
            Self::EveryNth(0) => wrong("every 0th packet is none; say Drops::None"),
            Self::EveryNth(n) => Ok(Some(format!("numgen inc mod {n} < 1"))),
            // The transport header is UDP's; the BTH follows its 8 bytes.
            Self::First { opcode, count } => {
                Ok(Some(format!("@th,64,8 {opcode} {}", first(count))))
            }
        }
    }
}

/// The part of a rule that selects the first packets that reach it. The counter behind `numgen inc`
/// starts at 0 and does not wrap.
fn first(packets: u32) -> String {
    format!("numgen inc mod {} < {packets}", i32::MAX)
}

/// RoCE packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets seen, including dropped ones.
    pub seen: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// RoCE packets of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounters {
    /// From the namespace to the guest.
    pub to_guest: Counters,
    /// From the guest to the namespace.
    pub to_host: Counters,
}

impl Direction {
    /// Name of the chain, and the device at which its packets arrive.
    fn chain(self) -> (&'static str, &'static str) {
        match self {
            Self::ToGuest => ("to_guest", HOST_SIDE),
            Self::ToHost => ("to_host", GUEST_SIDE),
        }
    }
}

pub(super) fn set_loss(
    namespace: &Namespace,
    direction: Direction,
    drops: Drops,
) -> Result<(), LabError> {
    let (chain, device) = direction.chain();
    let rule = drops.rule()?.map_or_else(String::new, |rule| {
        format!("udp dport 4791 {rule} counter name {chain}_dropped drop")
    });
    // Each direction is a table, replaced whole; "table; delete" makes the deletion
    // of one that may not exist.
    let table = format!("netdev {TABLE}_{chain}");
    let script = format!(
        "table {table}\n\
         delete table {table}\n\
         table {table} {{\n\
           counter {chain}_seen {{ }}\n\
           counter {chain}_dropped {{ }}\n\
           chain {chain} {{\n\
             type filter hook ingress device \"{device}\" priority 0; policy accept;\n\
             udp dport 4791 counter name {chain}_seen\n\
             {rule}\n\
           }}\n\
         }}\n"
    );
    namespace.run(&["nft", "-f", "-"], &script).map(drop)
}

/// Marks each RoCE packet of one direction, or stops marking.
pub(super) fn set_marks(
    namespace: &Namespace,
    direction: Direction,
    marks: bool,
) -> Result<(), LabError> {
    let (chain, device) = direction.chain();
    let rules = if marks {
        "udp dport 4791 ip ecn set ce\nudp dport 4791 ip6 ecn set ce\n"
    } else {
        ""
    };
    let table = format!("netdev {TABLE}_{chain}_marks");
    let script = format!(
        "table {table}\n\
         delete table {table}\n\
         table {table} {{\n\
           chain {chain} {{\n\
             type filter hook ingress device \"{device}\" priority 1; policy accept;\n\
             {rules}\
           }}\n\
         }}\n"
    );
    namespace.run(&["nft", "-f", "-"], &script).map(drop)
}

pub(super) fn counters(namespace: &Namespace) -> Result<LossCounters, LabError> {
    let text = namespace.run(&["nft", "-j", "list", "counters"], "")?;
    let listing: Value = serde_json::from_str(&text)
        .map_err(|e| LabError::new(format!("nft's list of counters: {e}: {text}")))?;
    let packets = |name: &str| {
        listing["nftables"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| &entry["counter"])
            .find(|counter| counter["name"] == name)
            .and_then(|counter| counter["packets"].as_u64())
            .unwrap_or_default()
    };
    let of = |direction: Direction| {
        let (chain, _) = direction.chain();
        Counters {
            seen: packets(&format!("{chain}_seen")),
            dropped: packets(&format!("{chain}_dropped")),
        }
    };
    Ok(LossCounters {
        to_guest: of(Direction::ToGuest),
        to_host: of(Direction::ToHost),
    })
}

pub(super) fn set_netem(lab: &Lab, direction: Direction, options: &str) -> Result<(), LabError> {
    let script = match direction {
        Direction::ToHost => replace_netem(GUEST_INTERFACE, options),
        Direction::ToGuest if options.is_empty() => {
            format!("tc qdisc del dev {GUEST_INTERFACE} ingress 2> /dev/null || true")
        }
        Direction::ToGuest => format!(
            "set -e; modprobe ifb numifbs=1; ip link set {DETOUR} up mtu 9000\n\
             tc qdisc del dev {GUEST_INTERFACE} ingress 2> /dev/null || true\n\
             {}\n\
             tc qdisc add dev {GUEST_INTERFACE} ingress\n\
             tc filter add dev {GUEST_INTERFACE} ingress protocol all matchall \
                action mirred egress redirect dev {DETOUR}",
            replace_netem(DETOUR, options)
        ),
    };
    lab.guest(["sh", "-c", &script])
        .output(Duration::from_secs(30))?
        .success()
        .map(drop)
}

fn replace_netem(device: &str, options: &str) -> String {
    let delete = format!("tc qdisc del dev {device} root 2> /dev/null || true");
    if options.is_empty() {
        delete
    } else {
        format!("{delete}; tc qdisc add dev {device} root netem {options}")
    }
}

/// Removes all faults of both directions.
pub(super) fn clear(lab: &Lab) -> Result<(), LabError> {
    for direction in [Direction::ToGuest, Direction::ToHost] {
        set_loss(&lab.namespace, direction, Drops::None)?;
        set_netem(lab, direction, "")?;
    }
    Ok(())
}
