//! What the kernel's counters show: packets that it dropped, and refusals that it received.

use super::{Finding, Meaning};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A counter of a network namespace, by the name that `nstat` shows.
struct Counter {
    name: &'static str,
    /// What it counts.
    what: &'static str,
    /// The smallest count that is a sign of something.
    least: u64,
    meaning: Option<Meaning>,
}

const BUFFER_FULL: Meaning = Meaning {
    likely: "packets arrived faster than a program on this host took them",
    advice: "give the program more CPU time, or its sockets larger buffers: net.core.rmem_max and \
             ROCE_UDP_BUFFER_MIB",
};

/// This stack causes an ICMP message or two itself, when it finds out how the kernel numbers packets.
const MORE_THAN_OWN: u64 = 4;

const REFUSED: Meaning = Meaning {
    likely: "the peer's host or a firewall refuses the packets, as when the peer's program has ended",
    advice: "is the peer's program running, with its device open? Do its firewall and those on the \
             way let UDP port 4791 through?",
};

const TOO_BIG: Meaning = Meaning {
    likely: "the path does not carry packets of the QP's path MTU",
    advice: "connect with a smaller path_mtu, or raise the MTU of the links on the way",
};

/// The most certain first.
const COUNTERS: &[Counter] = &[
    meaningful(
        "Icmp6InPktTooBigs",
        "routers answered \"packet too big\"",
        TOO_BIG,
    ),
    meaningful(
        "UdpRcvbufErrors",
        "receive buffers of sockets were full",
        BUFFER_FULL,
    ),
    meaningful(
        "Udp6RcvbufErrors",
        "receive buffers of sockets were full",
        BUFFER_FULL,
    ),
    refused("IcmpInDestUnreachs"),
    refused("Icmp6InDestUnreachs"),
    plain("UdpInCsumErrors", "UDP checksums were wrong"),
    plain("Udp6InCsumErrors", "UDP checksums were wrong"),
    plain("UdpMemErrors", "all sockets together had no memory left"),
    plain("IpInDiscards", "packets that arrived were discarded"),
    plain("Ip6InDiscards", "packets that arrived were discarded"),
    plain("IpOutDiscards", "packets to be sent were discarded"),
    plain("Ip6OutDiscards", "packets to be sent were discarded"),
    plain("IpOutNoRoutes", "there was no route"),
    plain("Ip6OutNoRoutes", "there was no route"),
];

const fn meaningful(name: &'static str, what: &'static str, meaning: Meaning) -> Counter {
    Counter {
        name,
        what,
        least: 1,
        meaning: Some(meaning),
    }
}

const fn refused(name: &'static str) -> Counter {
    Counter {
        least: MORE_THAN_OWN,
        ..meaningful(
            name,
            "hosts or routers answered \"destination unreachable\"",
            REFUSED,
        )
    }
}

const fn plain(name: &'static str, what: &'static str) -> Counter {
    Counter {
        name,
        what,
        least: 1,
        meaning: None,
    }
}

/// The columns of /proc/net/dev that count lost packets, from 0, with their names in `ip -s link`.
const INTERFACE_COLUMNS: [(usize, &str); 6] = [
    (2, "RX errors"),
    (3, "RX dropped"),
    (4, "RX overruns"),
    (10, "TX errors"),
    (11, "TX dropped"),
    (14, "TX carrier errors"),
];

/// Watches the kernel's counters from one moment on.
#[derive(Debug)]
pub(crate) struct KernelWatch {
    interface: String,
    namespace: u64,
    begin: Counts,
}

/// Counters by name.
type Counts = BTreeMap<String, u64>;

impl KernelWatch {
    /// Begins. `None` if the kernel shows no counters, as without /proc.
    pub(crate) fn begin(interface: &str) -> Option<Self> {
        Some(Self {
            interface: interface.to_owned(),
            namespace: namespace()?,
            begin: counts(interface)?,
        })
    }

    /// The name of the interface.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// The counters that have moved since the beginning. They are of the whole network namespace.
    pub(super) fn findings(&self) -> Vec<Finding> {
        // A thread that has moved to another namespace sees other counters.
        if namespace() != Some(self.namespace) {
            return Vec::new();
        }
        counts(&self.interface).map_or_else(Vec::new, |now| self.moved(&now))
    }

    fn moved(&self, now: &Counts) -> Vec<Finding> {
        let moved = |name: &str| {
            let value = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
            Some(value(now).saturating_sub(value(&self.begin))).filter(|count| *count > 0)
        };
        let mut findings = Vec::new();
        for counter in COUNTERS {
            let Counter {
                name,
                what,
                least,
                meaning,
            } = counter;
            if let Some(count) = moved(name).filter(|count| count >= least) {
                let fact = format!(
                    "the kernel has counted {name} {count} since the device was started: {what}"
                );
                findings.push(Finding {
                    fact,
                    meaning: *meaning,
                });
            }
        }
        for (_, name) in INTERFACE_COLUMNS {
            if let Some(count) = moved(name) {
                findings.push(Finding::fact(format!(
                    "{} has counted {name} {count} since the device was started",
                    self.interface
                )));
            }
        }
        findings
    }
}

/// The identity of the calling thread's network namespace.
fn namespace() -> Option<u64> {
    let found = fs::metadata("/proc/thread-self/ns/net").ok()?;
    Some(found.ino())
}

fn counts(interface: &str) -> Option<Counts> {
    let read = |table: &str| fs::read_to_string(format!("/proc/thread-self/net/{table}"));
    let mut counts = Counts::new();
    add_snmp(&mut counts, &read("snmp").ok()?);
    // Without IPv6, there is no such file.
    add_snmp6(&mut counts, &read("snmp6").unwrap_or_default());
    add_interface(&mut counts, &read("dev").unwrap_or_default(), interface);
    Some(counts)
}

fn add(counts: &mut Counts, name: String, value: &str) {
    if COUNTERS.iter().any(|counter| counter.name == name)
        && let Ok(value) = value.parse()
    {
        counts.insert(name, value);
    }
}

/// Of /proc/net/snmp: for each protocol a line of names and a line of values.
fn add_snmp(counts: &mut Counts, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let mut names = pair[0].split_whitespace();
        let protocol = names.next().unwrap_or_default().trim_end_matches(':');
        let values = pair[1].split_whitespace().skip(1);
        for (name, value) in names.zip(values) {
            add(counts, format!("{protocol}{name}"), value);
        }
    }
}

/// Of /proc/net/snmp6: in each line a name and a value.
fn add_snmp6(counts: &mut Counts, text: &str) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(value)) = (words.next(), words.next()) {
            add(counts, name.to_owned(), value);
        }
    }
}

/// Of /proc/net/dev: the line of the interface.
fn add_interface(counts: &mut Counts, text: &str, interface: &str) {
    let values = text.lines().find_map(|line| {
        let (name, values) = line.split_once(':')?;
        (name.trim() == interface).then_some(values)
    });
    let values: Vec<&str> = values.unwrap_or_default().split_whitespace().collect();
    for (column, name) in INTERFACE_COLUMNS {
        if let Some(value) = values.get(column).and_then(|value| value.parse().ok()) {
            counts.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "\
Icmp: InMsgs InErrors InCsumErrors InDestUnreachs
Icmp: 9 0 0 7
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 100 1 5 90 5 0
";
    const SNMP6: &str = "\
Udp6RcvbufErrors                \t3
Udp6SndbufErrors                \t0
";
    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
    v0:  100       2    1    2    3     0          0         0      100       2    4    5    0     0       6          0
";

    fn watch(counts: Counts) -> KernelWatch {
        KernelWatch {
            interface: "v0".to_owned(),
            namespace: 0,
            begin: counts,
        }
    }

    #[test]
    fn counters_are_read_from_all_three_tables() {
        let mut now = Counts::new();
        add_snmp(&mut now, SNMP);
        add_snmp6(&mut now, SNMP6);
        add_interface(&mut now, DEV, "v0");
        let begin = Counts::from([("UdpRcvbufErrors".to_owned(), 1)]);
        let facts: Vec<String> = watch(begin)
            .moved(&now)
            .into_iter()
            .map(|finding| finding.fact)
            .collect();
        let since = "since the device was started";
        let full = "receive buffers of sockets were full";
        let expected = [
            format!("the kernel has counted UdpRcvbufErrors 4 {since}: {full}"),
            format!("the kernel has counted Udp6RcvbufErrors 3 {since}: {full}"),
            format!(
                "the kernel has counted IcmpInDestUnreachs 7 {since}: hosts or routers answered \
                 \"destination unreachable\""
            ),
            format!("v0 has counted RX errors 1 {since}"),
            format!("v0 has counted RX dropped 2 {since}"),
            format!("v0 has counted RX overruns 3 {since}"),
            format!("v0 has counted TX errors 4 {since}"),
            format!("v0 has counted TX dropped 5 {since}"),
            format!("v0 has counted TX carrier errors 6 {since}"),
        ];
        assert_eq!(facts, expected);
        assert!(watch(now.clone()).moved(&now).is_empty());
    }

    /// The stack's own probes cause a few.
    #[test]
    fn a_few_icmp_messages_are_no_sign() {
        let found = |count: u64| {
            let now = Counts::from([("IcmpInDestUnreachs".to_owned(), count)]);
            watch(Counts::new()).moved(&now).len()
        };
        assert_eq!([found(0), found(3), found(4)], [0, 0, 1]);
    }

    /// Of a file that is cut off, or that a later kernel has changed.
    #[test]
    fn tables_of_another_form_have_no_counters() {
        for text in [
            "",
            "Udp:",
            "Udp: RcvbufErrors\nUdp:",
            "v0:",
            "v0: 1 x",
            "\0",
        ] {
            let mut counts = Counts::new();
            add_snmp(&mut counts, text);
            add_snmp6(&mut counts, text);
            add_interface(&mut counts, text, "v0");
            assert!(counts.is_empty(), "{text:?}: {counts:?}");
        }
    }

    /// The names are those of this kernel.
    #[test]
    fn the_kernel_has_these_counters() {
        let counts = counts("lo").expect("/proc is there");
        for name in ["UdpRcvbufErrors", "IcmpInDestUnreachs", "RX dropped"] {
            assert!(counts.contains_key(name), "{name}: {counts:?}");
        }
        let watch = KernelWatch::begin("lo").expect("/proc is there");
        assert_eq!(watch.interface(), "lo");
    }
}
