//! The measurement of the round trip, and what follows from it for responses that arrive soon after a
//! copy.

use super::Clock;
use crate::qp::requester::round_trip::MAX_ROUND_TRIP;
use crate::seq::Seq;
use crate::time::Instant;

impl Clock {
    /// Starts timing a packet that asks for an acknowledgement and was sent for the first time;
    /// `end` is one past its PSN.
    pub(in crate::qp::requester) fn time(&mut self, now: Instant, end: Seq) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Discards the measurement in progress, after a retransmission: the response may belong to
    /// either copy.
    pub(in crate::qp::requester) fn discard_timings(&mut self) {
        self.timed = None;
        self.ambiguous_since = None;
        self.trips.discard_timings();
    }

    /// Notes a retransmission because a response is late. It may be spurious: then the next
    /// response belongs to the timed packet. So the measurement goes on, marked as ambiguous.
    pub(in crate::qp::requester) fn mark_ambiguous(&mut self, now: Instant) {
        self.ambiguous_since = self.timed.and(self.ambiguous_since.or(Some(now)));
        self.trips.discard_timings();
    }

    /// Whether a response that arrives now can't belong to a copy that was sent at `copied`,
    /// because less than three quarters of a round trip have passed.
    pub(super) fn is_too_soon(&self, now: Instant, copied: Instant) -> bool {
        self.srtt
            .is_some_and(|srtt| now.nanos_since(copied) < srtt * 3 / 4)
    }

    /// Whether a report of a missing packet that arrives now is stale: the packet was retransmitted
    /// less than three quarters of a round trip ago, so the peer sent the report before the
    /// retransmission arrived.
    pub(in crate::qp::requester) fn is_stale(&self, now: Instant) -> bool {
        self.retransmitted
            .is_some_and(|at| self.is_too_soon(now, at))
    }

    pub(super) fn measured(&mut self, round_trip: u64) {
        let round_trip = round_trip.min(MAX_ROUND_TRIP);
        match &mut self.srtt {
            None => {
                self.srtt = Some(round_trip);
                self.deviation = round_trip / 2;
            }
            Some(srtt) => {
                let off = srtt.abs_diff(round_trip);
                self.deviation = (self.deviation * 3 + off) / 4;
                *srtt = (*srtt * 7 + round_trip) / 8;
            }
        }
    }
}
