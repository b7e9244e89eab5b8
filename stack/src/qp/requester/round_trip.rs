//! Measured round trips, for congestion control and for monitoring.
//!
//! The send times of a few packets that ask for an acknowledgement are noted. An acknowledgement
//! may cover several of them: only the newest one that it covers counts, so the earlier ones do not
//! make the round trip appear longer. A retransmission discards all noted packets: the response
//! could belong to either copy, or have waited for a missing packet (Karn's algorithm).

use crate::seq::Seq;
use crate::time::{Duration, Instant, nanos};

/// The maximum round trip, in nanoseconds: a day. The limit keeps all calculations from
/// overflowing.
pub(super) const MAX_ROUND_TRIP: u64 = 86_400_000_000_000;

/// The number of packets that are noted at a time. About four packets of a window ask for an
/// acknowledgement.
const MAX_NOTED: usize = 4;

/// Measures round trips.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    /// For each noted packet, one past its PSN, and when it was sent; the oldest first.
    noted: [Option<(Seq, Instant)>; MAX_NOTED],
    /// The round trip of the newest acknowledgement.
    pub(super) newest: Option<Duration>,
    pub(super) smoothed: Option<Duration>,
    pub(super) shortest: Option<Duration>,
}

impl RoundTrips {
    /// Notes a packet that asks for an acknowledgement and was sent for the first time; `end` is
    /// one past its PSN. Packets that leave together need only one note, for the first.
    pub(super) fn note(&mut self, now: Instant, end: Seq) {
        for place in &mut self.noted {
            match place {
                Some((_, sent)) if *sent == now => return,
                Some(_) => {}
                None => {
                    *place = Some((end, now));
                    return;
                }
            }
        }
    }

    /// Drops all notes, since something is retransmitted.
    pub(super) fn discard_timings(&mut self) {
        self.noted = [None; MAX_NOTED];
    }

    /// Notes that everything before `una` is acknowledged, and measures the round trip.
    pub(super) fn on_progress(&mut self, now: Instant, una: Seq) {
        let covered = |noted: &&Option<(Seq, Instant)>| noted.is_some_and(|(end, _)| end <= una);
        let answered = self.noted.iter().take_while(covered).count();
        let Some((_, sent)) = answered.checked_sub(1).and_then(|last| self.noted[last]) else {
            return;
        };
        self.noted.rotate_left(answered);
        self.noted[MAX_NOTED - answered..].fill(None);
        self.measured(now.saturating_duration_since(sent));
    }

    fn measured(&mut self, round_trip: Duration) {
        self.newest = Some(round_trip);
        let newest = nanos(round_trip).min(MAX_ROUND_TRIP);
        let smoothed = self.smoothed.map_or(newest, nanos);
        self.smoothed = Some(Duration::from_nanos((smoothed * 7 + newest) / 8));
        self.shortest = Some(self.shortest.unwrap_or(round_trip).min(round_trip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::Psn;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    const fn us(n: u64) -> Option<Duration> {
        Some(Duration::from_micros(n))
    }

    #[test]
    fn an_acknowledgement_answers_the_newest_that_it_covers() {
        let first = Seq::initial(Psn::new(0));
        let mut trips = RoundTrips::default();
        for n in 1..=3 {
            trips.note(at(n * 10), first + n);
        }
        trips.on_progress(at(50), first + 2);
        assert_eq!(trips.newest.take(), us(30), "not 40, since the first");
        trips.on_progress(at(55), first + 2);
        assert_eq!(trips.newest, None, "nothing new is acknowledged");
        trips.on_progress(at(60), first + 9);
        assert_eq!(trips.newest, us(30));
        assert_eq!(trips.shortest, us(30));
    }

    #[test]
    fn there_is_room_again_for_what_is_sent_later() {
        let first = Seq::initial(Psn::new(0));
        let mut trips = RoundTrips::default();
        for n in 1..=10 {
            trips.note(at(n * 10), first + n);
        }
        trips.on_progress(at(100), first + 2);
        trips.note(at(110), first + 11);
        trips.note(at(120), first + 12);
        // Of the first ten, four were noted; then there was room for two.
        trips.on_progress(at(130), first + 10);
        assert_eq!(trips.newest, us(90));
        trips.on_progress(at(140), first + 12);
        assert_eq!(trips.newest, us(20));
    }

    #[test]
    fn what_left_together_is_noted_once() {
        let first = Seq::initial(Psn::new(0));
        let mut trips = RoundTrips::default();
        for n in 1..=10 {
            trips.note(at(10), first + n);
        }
        trips.note(at(20), first + 11);
        trips.on_progress(at(30), first + 11);
        assert_eq!(trips.newest, us(10));
    }

    #[test]
    fn what_was_repeated_is_not_measured() {
        let first = Seq::initial(Psn::new(0));
        let mut trips = RoundTrips::default();
        trips.note(at(0), first + 1);
        trips.discard_timings();
        trips.on_progress(at(10), first + 1);
        assert_eq!(
            (trips.newest, trips.smoothed, trips.shortest),
            (None, None, None)
        );
    }

    #[test]
    fn a_new_round_trip_counts_an_eighth() {
        let first = Seq::initial(Psn::new(0));
        let mut trips = RoundTrips::default();
        trips.note(at(0), first + 1);
        trips.on_progress(at(80), first + 1);
        trips.note(at(100), first + 2);
        trips.on_progress(at(100), first + 2);
        assert_eq!(trips.smoothed, us(70));
        assert_eq!(trips.shortest, us(0));
    }
}
