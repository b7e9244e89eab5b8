//! The mismatches that were noted.

use crate::mismatch::Mismatch;
use roce_wire::Qpn;
use std::collections::VecDeque;

/// The kinds that are remembered. Peers can send packets to any number of QPs.
const MOST: usize = 256;

/// The noted packets, by QP and reason.
#[derive(Debug, Default)]
pub(crate) struct Mismatches {
    noted: Vec<Mismatch>,
    waiting: VecDeque<Mismatch>,
}

impl Mismatches {
    /// Notes a mismatch. It is reported when it has been seen often enough.
    #[cold]
    pub(crate) fn note(&mut self, mismatch: Mismatch) {
        let is_known = |known: &Mismatch| known.is_same_kind(&mismatch);
        if !self.noted.iter().any(is_known) && self.noted.len() < MOST {
            self.noted.push(Mismatch {
                times: 0,
                ..mismatch
            });
        }
        let Some(known) = self.noted.iter_mut().find(|known| is_known(known)) else {
            return;
        };
        known.times = known.times.saturating_add(1);
        if known.times == known.threshold() {
            self.waiting.push_back(Mismatch {
                times: known.times,
                ..mismatch
            });
        }
    }

    /// The QP is reset or gone, or a new one has its number.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        if !self.noted.is_empty() {
            self.noted.retain(|known| known.qpn != qpn);
        }
    }

    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn poll(&mut self) -> Option<Mismatch> {
        self.waiting.pop_front()
    }
}

impl Mismatch {
    fn is_same_kind(&self, other: &Self) -> bool {
        (self.qpn, self.reason) == (other.qpn, other.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::DropReason;
    use crate::mismatch::Difference;
    use roce_wire::Opcode;

    fn mismatch(qpn: u32, opcode: Opcode) -> Mismatch {
        Mismatch {
            qpn: Qpn::from_bits(qpn),
            from: [10, 0, 0, 1].into(),
            opcode,
            times: 1,
            reason: DropReason::NoReceive,
            difference: Difference::NoReceive,
        }
    }

    #[test]
    fn each_is_reported_once_when_it_was_seen_often_enough() {
        for (opcode, threshold) in [(Opcode::UD_SEND_ONLY, 1), (Opcode::RC_SEND_ONLY, 3)] {
            let mut noted = Mismatches::default();
            for times in 1..10 {
                noted.note(mismatch(7, opcode));
                let found = noted.poll().map(|found| found.times);
                assert_eq!(found, (times == threshold).then_some(threshold));
            }
            noted.forget(Qpn::from_bits(7));
            (0..threshold).for_each(|_| noted.note(mismatch(7, opcode)));
            assert!(noted.has_any());
        }
    }

    #[test]
    fn no_more_kinds_are_remembered_than_there_may_be() {
        let mut noted = Mismatches::default();
        for qpn in 0..2000 {
            noted.note(mismatch(qpn, Opcode::UD_SEND_ONLY));
        }
        assert_eq!(std::iter::from_fn(|| noted.poll()).count(), MOST);
    }
}
