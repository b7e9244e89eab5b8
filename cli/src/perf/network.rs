//! The network's effect on the packets of one end, for users who test a switch's configuration.

use roce_verbs::Context;
use roce_verbs::device::OpenError;
use roce_verbs::observation::Stat;
use roce_verbs::settings::environment_priorities;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Marks and drops at one end. A WRITE's packets are marked on their way to the server, so the
/// server counts the marks and sends the CNPs; a client that READs counts them itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Network {
    /// The DSCP of packets that are sent.
    dscp: u8,
    /// Packets that arrived with an ECN mark (congestion experienced).
    ecn_marked: u64,
    /// CNPs that were sent in response.
    cnps_sent: u64,
    /// CNPs received: the peer has received marked packets.
    cnps_received: u64,
    retransmitted: u64,
    /// Local ACK timeouts.
    timeouts: u64,
    /// Those of them after which the awaited answer came before all that was outstanding had been
    /// retransmitted: nothing was lost. If it comes later, it may be the answer to a copy, and the
    /// timeout does not count as spurious.
    spurious_timeouts: u64,
    /// Answers that were late compared with the measured round trip. The requester retransmits a
    /// packet to get each, whether it was lost or not.
    late_answers: u64,
    /// RNR NAKs received: the peer had no receive for a message, so it is retransmitted.
    rnr_naks: u64,
    /// Packets that arrived and were dropped, in total and by reason.
    dropped: u64,
    drops: BTreeMap<String, u64>,
}

impl Network {
    /// The device's counters.
    pub(super) fn of(context: &Context) -> Result<Self, OpenError> {
        let counters = context.counters();
        let priorities = environment_priorities()?.unwrap_or_default();
        let drops = counters.iter().filter_map(|(name, count)| {
            let reason = name.strip_prefix("drop_")?;
            (count > 0).then(|| (reason.to_owned(), count))
        });
        Ok(Self {
            // The default, without a service level or traffic class.
            dscp: priorities.traffic_class(0, 0) >> 2,
            ecn_marked: counters.stat(Stat::EcnMarked),
            cnps_sent: counters.stat(Stat::CnpsSent),
            cnps_received: counters.stat(Stat::CnpsReceived),
            retransmitted: counters.stat(Stat::Retransmitted),
            timeouts: counters.stat(Stat::Timeouts),
            spurious_timeouts: counters.stat(Stat::SpuriousTimeouts),
            late_answers: counters.stat(Stat::LateAnswers),
            rnr_naks: counters.stat(Stat::RnrNaksReceived),
            dropped: counters.total_drops(),
            drops: drops.collect(),
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DSCP {}; {} packets came with an ECN mark, {} CNPs sent, {} CNPs received; {} packets \
             retransmitted",
            self.dscp, self.ecn_marked, self.cnps_sent, self.cnps_received, self.retransmitted,
        )?;
        if self.retransmitted > 0 {
            write!(
                f,
                " ({} timeouts, {} of them spurious; {} late answers, {} RNR NAKs)",
                self.timeouts, self.spurious_timeouts, self.late_answers, self.rnr_naks
            )?;
        }
        write!(f, ", {} packets dropped", self.dropped)?;
        for (index, (reason, count)) in self.drops.iter().enumerate() {
            let separator = if index == 0 { ": " } else { ", " };
            write!(f, "{separator}{count} {}", reason.replace('_', " "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_shown_as_text() {
        let mut network = Network {
            dscp: 26,
            ecn_marked: 5,
            cnps_sent: 2,
            cnps_received: 1,
            retransmitted: 0,
            timeouts: 2,
            spurious_timeouts: 1,
            late_answers: 4,
            rnr_naks: 6,
            dropped: 0,
            drops: BTreeMap::new(),
        };
        let start = "DSCP 26; 5 packets came with an ECN mark, 2 CNPs sent, 1 CNPs received; ";
        let none = format!("{start}0 packets retransmitted, 0 packets dropped");
        assert_eq!(network.to_string(), none);
        network.retransmitted = 3;
        network.dropped = 7;
        network.drops = [("bad_icrc".to_owned(), 4), ("unknown_qp".to_owned(), 3)].into();
        let end = "3 packets retransmitted (2 timeouts, 1 of them spurious; 4 late answers, 6 RNR NAKs), \
                   7 packets dropped: 4 bad icrc, 3 unknown qp";
        assert_eq!(network.to_string(), format!("{start}{end}"));
    }
}
