//! Evidence from the kernel's counters: packets that it dropped, and refusals that it received.

use super::{Finding, Meaning};
use roce_trust::{Interface, interfaces};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A counter of a network namespace, by the name that `nstat` shows.
struct Counter {
    name: &'static str,
    what: &'static str,
    /// The counter to subtract.
    less: Option<&'static str>,
    /// The smallest count that is a sign of something.
    least: u64,
    meaning: Option<Meaning>,
}

const BUFFER_FULL: Meaning = Meaning {
    likely: "packets arrived faster than a program on this host took them",
    advice: "give the program more CPU time, or its sockets larger buffers: net.core.rmem_max and \
             ROCE_UDP_BUFFER_MIB",
};

/// Of a packet that is sent eight times, the peer's host refuses more, although it limits the rate of
/// its ICMP messages. Another program may have been refused something, too.
const REFUSED_AGAIN_AND_AGAIN: u64 = 4;

const REFUSED: Meaning = Meaning {
    likely: "the peer's host or a firewall refuses the packets, as when the peer's program has ended",
    advice: "is the peer's program running, with its device open? Do its firewall and those on the \
             way let UDP port 4791 through?",
};

pub(super) const TOO_BIG: Meaning = Meaning {
    likely: "the path does not carry packets of the QP's path MTU",
    advice: "connect with a smaller path_mtu, or raise the MTU of the links on the way",
};

/// The most certain first.
const COUNTERS: &[Counter] = &[
    counter(
        "Icmp6InPktTooBigs",
        "Routers answered \"packet too big\"",
        Some(TOO_BIG),
    ),
    counter(
        "UdpRcvbufErrors",
        "Receive buffers of sockets were full",
        Some(BUFFER_FULL),
    ),
    counter(
        "Udp6RcvbufErrors",
        "Receive buffers of sockets were full",
        Some(BUFFER_FULL),
    ),
    refused("IcmpInDestUnreachs", "IcmpOutDestUnreachs"),
    refused("Icmp6InDestUnreachs", "Icmp6OutDestUnreachs"),
    counter("UdpInCsumErrors", "UDP checksums were wrong", None),
    counter("Udp6InCsumErrors", "UDP checksums were wrong", None),
    counter(
        "UdpMemErrors",
        "All sockets together had no memory left",
        None,
    ),
    counter("IpInDiscards", "Packets that arrived were discarded", None),
    counter("Ip6InDiscards", "Packets that arrived were discarded", None),
    counter("IpOutDiscards", "Packets to be sent were discarded", None),
    counter("Ip6OutDiscards", "Packets to be sent were discarded", None),
    counter("IpOutNoRoutes", "There was no route", None),
    counter("Ip6OutNoRoutes", "There was no route", None),
];

const fn counter(name: &'static str, what: &'static str, meaning: Option<Meaning>) -> Counter {
    Counter {
        name,
        what,
        less: None,
        least: 1,
        meaning,
    }
}

/// Messages of other hosts only. This host's to itself are counted as sent, too: this stack causes some
/// when it finds out how the kernel numbers packets.
const fn refused(name: &'static str, sent: &'static str) -> Counter {
    Counter {
        less: Some(sent),
        least: REFUSED_AGAIN_AND_AGAIN,
        ..counter(
            name,
            "Other hosts or routers answered \"destination unreachable\"",
            Some(REFUSED),
        )
    }
}

/// The columns of /proc/net/dev that count lost packets, from 0.
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
    /// How often it has looked.
    #[cfg(test)]
    pub(crate) looks: std::sync::atomic::AtomicU32,
}

/// The kernel's counters, interfaces and neighbours at one moment.
pub(crate) struct KernelView<'a> {
    watch: &'a KernelWatch,
    counts: Option<Counts>,
    /// All interfaces; none if the system can't list them.
    pub(super) interfaces: Vec<Interface>,
    /// The text of /proc/net/arp.
    pub(super) neighbours: String,
}

impl KernelView<'_> {
    /// The name of the device's interface.
    pub(super) fn interface(&self) -> &str {
        &self.watch.interface
    }

    /// The counters that have moved since the beginning, of packets of this family. They are of the
    /// whole network namespace.
    pub(super) fn findings(&self, is_v6: bool) -> Vec<Finding> {
        let counts = self.counts.as_ref();
        counts.map_or_else(Vec::new, |now| self.watch.moved(now, is_v6))
    }
}

type Counts = BTreeMap<String, u64>;

impl KernelWatch {
    /// Begins. `None` if the kernel shows no counters, as without /proc.
    pub(crate) fn begin(interface: &str) -> Option<Self> {
        Some(Self {
            interface: interface.to_owned(),
            namespace: namespace()?,
            begin: counts(interface)?,
            #[cfg(test)]
            looks: Default::default(),
        })
    }

    /// Reads what the kernel shows now. `None` if the calling thread is not in the network namespace of
    /// the beginning, since it would see other interfaces, routes and counters. This takes a dozen
    /// system calls, so a caller explains all that it can with one view.
    #[cold]
    pub(crate) fn look(&self) -> Option<KernelView<'_>> {
        #[cfg(test)]
        self.looks
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (namespace() == Some(self.namespace)).then(|| KernelView {
            watch: self,
            counts: counts(&self.interface),
            interfaces: interfaces().unwrap_or_default(),
            neighbours: fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default(),
        })
    }

    fn moved(&self, now: &Counts, is_v6: bool) -> Vec<Finding> {
        let moved = |name: &str| {
            let value = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
            Some(value(now).saturating_sub(value(&self.begin))).filter(|count| *count > 0)
        };
        let mut findings = Vec::new();
        for counter in COUNTERS {
            let Counter {
                name,
                what,
                less,
                least,
                meaning,
            } = counter;
            if name.contains('6') != is_v6 {
                continue;
            }
            let less = less.and_then(moved).unwrap_or(0);
            let count = moved(name).map_or(0, |count| count.saturating_sub(less));
            if count >= *least {
                let fact = format!("{name}: {count} more since the datapath started. {what}");
                findings.push(Finding {
                    fact,
                    meaning: *meaning,
                });
            }
        }
        for (_, name) in INTERFACE_COLUMNS {
            if let Some(count) = moved(name) {
                findings.push(Finding::fact(format!(
                    "{}: {count} more {name} since the datapath started",
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
    let is_one = |counter: &Counter| counter.name == name || counter.less == Some(name.as_str());
    if COUNTERS.iter().any(is_one)
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
            looks: Default::default(),
        }
    }

    #[test]
    fn counters_are_read_from_all_three_tables() {
        let mut now = Counts::new();
        add_snmp(&mut now, SNMP);
        add_snmp6(&mut now, SNMP6);
        add_interface(&mut now, DEV, "v0");
        let facts = |is_v6| {
            let begin = Counts::from([("UdpRcvbufErrors".to_owned(), 1)]);
            let findings = watch(begin).moved(&now, is_v6);
            let facts = findings.into_iter().map(|finding| finding.fact);
            facts.collect::<Vec<_>>()
        };
        let interface = [
            "v0: 1 more RX errors since the datapath started",
            "v0: 2 more RX dropped since the datapath started",
            "v0: 3 more RX overruns since the datapath started",
            "v0: 4 more TX errors since the datapath started",
            "v0: 5 more TX dropped since the datapath started",
            "v0: 6 more TX carrier errors since the datapath started",
        ];
        let full = "more since the datapath started. Receive buffers of sockets were full";
        let v4 = [
            format!("UdpRcvbufErrors: 4 {full}"),
            "IcmpInDestUnreachs: 7 more since the datapath started. Other hosts or routers answered \
             \"destination unreachable\""
                .to_owned(),
        ];
        let expected: Vec<String> = v4.into_iter().chain(interface.map(str::to_owned)).collect();
        assert_eq!(facts(false), expected);
        assert_eq!(facts(true)[0], format!("Udp6RcvbufErrors: 3 {full}"));
        assert_eq!(facts(true)[1..], interface);
        assert!(watch(now.clone()).moved(&now, false).is_empty());
    }

    /// This host's own messages to itself are no sign, and a few of others are none.
    #[test]
    fn a_few_icmp_messages_are_no_sign() {
        let found = |received: u64, sent: u64| {
            let now = Counts::from([
                ("IcmpInDestUnreachs".to_owned(), received),
                ("IcmpOutDestUnreachs".to_owned(), sent),
            ]);
            watch(Counts::new()).moved(&now, false).len()
        };
        assert_eq!([found(0, 0), found(3, 0), found(4, 0)], [0, 0, 1]);
        assert_eq!([found(9, 9), found(9, 5), found(4, 9)], [0, 1, 0]);
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
        for name in [
            "UdpRcvbufErrors",
            "IcmpInDestUnreachs",
            "IcmpOutDestUnreachs",
            "RX dropped",
        ] {
            assert!(counts.contains_key(name), "{name}: {counts:?}");
        }
        let watch = KernelWatch::begin("lo").expect("/proc is there");
        let view = watch.look().expect("the same namespace");
        assert_eq!(view.interface(), "lo");
        assert!(!view.interfaces.is_empty() && !view.neighbours.is_empty());
    }
}
