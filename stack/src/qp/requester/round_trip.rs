//! Round trips as they are, for who rules the rate and for who watches.
//!
//! A few packets that ask for an acknowledgement are noted with the time when they were
//! sent. An acknowledgement may be for many packets: the newest of those noted that it
//! covers is what it answers, so what came before does not make the round trip longer than
//! it was. Once anything is sent again, nothing noted counts any more: an answer could be
//! to either copy, or have waited for what was missing (Karn's rule).

use crate::seq::Seq;
use crate::time::{Duration, Instant, nanos};

/// A round trip counts as no longer than this, in nanoseconds: a day. So nothing that is made
/// of it overflows.
pub(super) const LONGEST: u64 = 86_400_000_000_000;

/// How many packets are noted at a time. A window has about four that ask.
const NOTED: usize = 4;

/// Measures round trips.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    /// One past the PSNs of packets, and when they were sent; the oldest first.
    noted: [Option<(Seq, Instant)>; NOTED],
    /// What the newest acknowledgement told.
    pub(super) newest: Option<Duration>,
    pub(super) smoothed: Option<Duration>,
    pub(super) shortest: Option<Duration>,
}

impl RoundTrips {
    /// A packet that asks for an acknowledgement was sent for the first time; `end` is one
    /// past its PSN. Of those that left together, the first is enough.
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

    /// Something is sent again.
    pub(super) fn distrust(&mut self) {
        self.noted = [None; NOTED];
    }

    /// Everything before `una` is acknowledged.
    pub(super) fn on_progress(&mut self, now: Instant, una: Seq) {
        let covered = |noted: &&Option<(Seq, Instant)>| noted.is_some_and(|(end, _)| end <= una);
        let answered = self.noted.iter().take_while(covered).count();
        let Some((_, sent)) = answered.checked_sub(1).and_then(|last| self.noted[last]) else {
            return;
        };
        self.noted.rotate_left(answered);
        self.noted[NOTED - answered..].fill(None);
        self.measured(now.saturating_duration_since(sent));
    }

    fn measured(&mut self, round_trip: Duration) {
        self.newest = Some(round_trip);
        let newest = nanos(round_trip).min(LONGEST);
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
        trips.distrust();
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
