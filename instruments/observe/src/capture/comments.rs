//! The comments on a captured packet, which describe what happened to the packet.

use roce_port::{Effects, Loss};
use roce_stack::{Counters, DropReason, Stat};

/// The counters, other than drops, that show how the NIC handled a packet, each with its comment.
const OUTCOME_COUNTERS: [(Stat, &str); 3] = [
    (
        Stat::OutOfOrderKept,
        "out of order: kept until the missing packets arrive",
    ),
    (Stat::DuplicateRequests, "a duplicate request"),
    (
        Stat::PsnGuesses,
        "a PSN that the peer can't have sent: somebody guesses",
    ),
];

#[derive(Debug, Default)]
pub(super) struct Comments(pub(super) Vec<String>);

impl Comments {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a comment that an injected fault lost the packet.
    pub(super) fn lost(&mut self, why: Loss) {
        self.fault(why.explain(), why.counter());
    }

    /// Adds comments on what injected faults did to the packet before it arrived.
    pub(super) fn effects(&mut self, effects: &Effects) {
        let Effects {
            held,
            flipped_bit,
            is_duplicate,
        } = *effects;
        if is_duplicate {
            self.fault("a duplicate", "fault_duplicated");
        }
        if !held.is_zero() {
            let us = held.as_nanos() as f64 / 1e3;
            self.0.push(format!("fault: held back for {us} us"));
        }
        if let Some(bit) = flipped_bit {
            self.fault(
                &format!("bit {} of byte {} flipped", bit % 8, bit / 8),
                "fault_corrupted",
            );
        }
    }

    fn fault(&mut self, what: &str, counter: &str) {
        self.0.push(format!("fault: {what} ({counter})"));
    }

    /// Adds comments on what the NIC did with the packet, derived from its counters before and
    /// after.
    pub(super) fn received(&mut self, before: &Counters, after: &Counters) {
        for &reason in DropReason::ALL {
            let drops = after.drops(reason).saturating_sub(before.drops(reason));
            if drops == 0 {
                continue;
            }
            let label = reason.label();
            let words = label.replace('_', " ");
            // Several QPs may drop the same multicast packet. A packet may also cause the drop of
            // out-of-order packets that were kept before.
            let times = match drops {
                1 => String::new(),
                _ => format!(", {drops} times"),
            };
            self.0
                .push(format!("dropped: {words} (drop_{label}){times}"));
        }
        for (stat, words) in OUTCOME_COUNTERS {
            if after.stat(stat) > before.stat(stat) {
                self.0.push(format!("{words} ({})", stat.label()));
            }
        }
    }
}
