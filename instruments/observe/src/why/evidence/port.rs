//! Evidence from a port's counters: packets that did not leave this host.

use super::{Finding, Meaning};

/// A counter of packets that were not sent, and what it means.
struct Refusal {
    /// The counters' names: those of UDP sockets, of AF_XDP, of lanes, and of the fault layer.
    counters: &'static [&'static str],
    /// The fate of these packets.
    fact: &'static str,
    meaning: Meaning,
}

impl Refusal {
    /// The number of these packets, if there are any.
    fn count(&self, counter: &impl Fn(&str) -> u64) -> Option<u64> {
        let count = self.counters.iter().map(|name| counter(name)).sum();
        (count > 0).then_some(count)
    }

    fn fact(&self, count: u64) -> String {
        format!(
            "of the packets of all QPs of this device, {count} got lost at this host: {}",
            self.fact
        )
    }
}

/// The most certain first.
const REFUSALS: &[Refusal] = &[
    Refusal {
        counters: &["fault_lost", "fault_overflowed"],
        fact: "ROCE_FAULTS lost them on purpose when they arrived",
        meaning: Meaning {
            likely: "the faults that ROCE_FAULTS asks for",
            advice: "unset ROCE_FAULTS, or give it smaller chances",
        },
    },
    Refusal {
        counters: &["fault_unplugged"],
        fact: "ROCE_FAULTS had taken the link down",
        meaning: Meaning {
            likely: "the faults that ROCE_FAULTS asks for",
            advice: "unset ROCE_FAULTS, or leave out port:down",
        },
    },
    Refusal {
        counters: &["tx_forbidden", "tx_prohibited"],
        fact: "a packet filter or a route of this host forbade them",
        meaning: FORBIDDEN,
    },
    Refusal {
        counters: &["tx_network_unreachable", "tx_no_route", "tx_off_link"],
        fact: "this host had no route to the peer, or the interface was down",
        meaning: NO_ROUTE,
    },
    Refusal {
        counters: &["tx_host_unreachable"],
        fact: "the next hop did not answer ARP or neighbour discovery, or a router reported the peer \
               as unreachable",
        meaning: NO_SUCH_HOST,
    },
    Refusal {
        counters: &["tx_refused"],
        fact: "the peer's host answered that nothing listens at UDP port 4791",
        meaning: Meaning {
            likely: "the peer's program has ended, or has never opened its device",
            advice: "start the peer's program, and look at why it ended: run it with \
                     ROCE_WHY=stderr, too",
        },
    },
    Refusal {
        counters: &["tx_too_long"],
        fact: "they were longer than the MTU of the interface",
        meaning: Meaning {
            likely: "the MTU of the interface has become smaller than the path MTU needs",
            advice: "raise the MTU of the interface, or connect with a smaller path_mtu",
        },
    },
    Refusal {
        counters: &["tx_address_gone", "tx_source_not_ours"],
        fact: "their source address, or the interface, was gone",
        meaning: Meaning {
            likely: "the address of the QP's GID has been removed from the interface",
            advice: "give the interface its address back, or connect with another GID index",
        },
    },
    Refusal {
        counters: &["tx_link_down", "tx_interface_gone"],
        fact: "the interface was down or gone",
        meaning: Meaning {
            likely: "the interface was down",
            advice: "look at `ip link`, and at the kernel's log",
        },
    },
    Refusal {
        counters: &["tx_lane_stalled"],
        fact: "a process on this host did not take them out of the shared memory for a tenth of a second",
        meaning: Meaning {
            likely: "the peer's process is stopped, or gets no processor",
            advice: "look at its state (`ps -o stat`), and leave it a processor",
        },
    },
    Refusal {
        counters: &["tx_no_buffer"],
        fact: "the interface's transmit queue was full, or the kernel had no memory",
        meaning: Meaning {
            likely: "the interface's transmit queue is too short for the load",
            advice: "raise `txqueuelen` of the interface, or limit the rate",
        },
    },
];

pub(super) const FORBIDDEN: Meaning = Meaning {
    likely: "this host's own firewall or routes forbid the packets",
    advice: "let UDP port 4791 out: look at `nft list ruleset`, `iptables -L OUTPUT`, and `ip route \
             get` with the peer's address",
};

pub(super) const NO_ROUTE: Meaning = Meaning {
    likely: "this host has no route to the peer",
    advice: "look at `ip route get` with the peer's address",
};

pub(super) const NO_SUCH_HOST: Meaning = Meaning {
    likely: "no host has the peer's address",
    advice: "is the peer's host up, on this network, and is its GID's address the right one? `ip \
             neigh` shows who answers",
};

/// The packets of all QPs that were lost at this host since the device was opened, by reason. Fewer
/// than the transmissions of one packet, `least`, have not made a QP fail.
pub(super) fn refusals(counters: &[(&'static str, u64)], least: u64) -> Vec<Finding> {
    let value = |name: &str| {
        let mut named = counters.iter().filter(|(known, _)| *known == name);
        named.next().map_or(0, |(_, value)| *value)
    };
    let found = REFUSALS.iter().filter_map(|refusal| {
        let count = refusal.count(&value)?;
        Some(Finding {
            fact: refusal.fact(count),
            meaning: Some(refusal.meaning).filter(|_| count >= least),
        })
    });
    found.collect()
}

/// Packets that did not leave this host, or that it lost on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketsNotSent {
    /// How many, and why.
    pub fact: String,
    /// The likely cause.
    pub likely: &'static str,
    /// The advice about it.
    pub advice: &'static str,
}

/// The packets of a device that did not leave this host, by reason. `counter` returns the value of a
/// counter of its port.
pub fn packets_not_sent(counter: impl Fn(&str) -> u64) -> Vec<PacketsNotSent> {
    let found = REFUSALS.iter().filter_map(|refusal| {
        let count = refusal.count(&counter)?;
        Some(PacketsNotSent {
            fact: refusal.fact(count),
            likely: refusal.meaning.likely,
            advice: refusal.meaning.advice,
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_faults::{FaultCounters, LinkGate};
    use roce_local::{LaneConfig, Lanes};
    use roce_port::Layer as _;
    use roce_udp::TxDrop;

    #[test]
    fn each_counter_of_either_end_is_added_to_its_reason() {
        let counters = [
            ("tx_packets", 9),
            ("fault_lost", 2),
            ("fault_overflowed", 3),
        ];
        let found = refusals(&counters, 5);
        let [only] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            only.fact,
            "of the packets of all QPs of this device, 5 got lost at this host: ROCE_FAULTS lost them \
             on purpose when they arrived"
        );
        assert!(only.meaning.is_some());
        assert_eq!(refusals(&counters, 6)[0].meaning, None);
        assert!(refusals(&counters[..1], 1).is_empty());
    }

    /// So that a counter which gets another name is not lost here.
    #[test]
    fn the_counters_exist() {
        let xdp = roce_xdp::net::Refusal::ALL.map(|reason| reason.name());
        let udp = TxDrop::ALL.map(TxDrop::name);
        let faults = FaultCounters::default().each();
        let lanes = Lanes::new(LaneConfig::default()).expect("descriptors");
        let lanes = lanes.each_counter();
        let known: Vec<&str> = xdp
            .into_iter()
            .chain(udp)
            .chain(faults.map(|(name, _)| name))
            .chain(lanes.iter().map(|(name, _)| *name))
            .chain([LinkGate::COUNTER])
            .collect();
        for name in REFUSALS.iter().flat_map(|refusal| refusal.counters) {
            assert!(known.contains(name), "{name}");
        }
    }
}
