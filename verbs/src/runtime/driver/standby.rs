//! The background thread beside an application that calls.
//!
//! An application that polls drives the NIC better than any other thread: each packet
//! that woke this thread would only take the processor from it. An application that
//! calls now and then, and between its calls watches its memory for what a peer writes
//! there, drives nothing meanwhile. Which one it is shows in how often it calls while this
//! thread waits, and in whether it is just in a call when this thread has waited: one that
//! keeps a link busy calls seldom, but spends its time there. (When it last called says
//! nothing: this thread may have taken its processor.) If it mostly drives, the thread
//! stays away until it mostly does not.

use super::{APPLICATION_DRIVES, packets_of, until_something_is_due};
use crate::runtime::DeviceState;
use crate::runtime::Engine;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// An application that polls calls again within this time, on average.
const POLLS: Duration = Duration::from_micros(5);

/// An acknowledgement waits so long for what the application sends in answer. Sent at
/// once, it would wake a thread of the peer's; and the peer, who may poll until it has
/// come, would go on to watch its memory, and not drive its NIC when the answer comes.
const ANSWERS: Duration = Duration::from_micros(100);

/// What was posted waits so long for the call that sends it: most of the time it is under
/// way, and has the NIC.
const SENDS: Duration = Duration::from_micros(100);

/// So soon the thread looks again at an application that it has just left alone: it may
/// watch its memory by now. Each time that it does not, it is left alone for twice as long.
const SHORTEST_ABSENCE: Duration = Duration::from_micros(50);

/// It is never left alone for longer. An application that has driven the NIC for at least so
/// long, and goes to do something else without a word, lets peers and timers wait until the
/// look after the one that finds it silent for [`APPLICATION_DRIVES`]: 2.5 ms at most. Each look
/// costs its processor 27 us, timer, changes of threads and cold caches together.
const LONGEST_ABSENCE: Duration = Duration::from_millis(2);

/// What came of the last times, beside an application that calls.
#[derive(Debug)]
pub(super) struct Standby {
    /// How sure it is that the application drives: 0 to [`Standby::CERTAIN`].
    drives: u8,
    /// For how long it stays away next time.
    absence: Duration,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            drives: 0,
            absence: SHORTEST_ABSENCE,
        }
    }
}

impl Standby {
    /// Waits for something to do, no longer than two milliseconds, and does it unless
    /// the application polls.
    pub(super) fn take_turn(&mut self, shared: &DeviceState) {
        let (began, calls) = (Instant::now(), shared.calls());
        let woken = if self.leaves_it_to_the_application() {
            wait(shared, Vec::new(), self.absence)
        } else {
            wait_for_packets(shared)
        };
        // Who is answered is in a call just then, whatever it does otherwise.
        let in_call = shared.engine.is_locked();
        let calls = shared.calls().wrapping_sub(calls);
        if is_polling(calls, began.elapsed()) || in_call && !woken {
            self.note(true);
        } else if !in_call {
            self.note(false);
            // Who has the lock sees to all of it.
            if let Some(mut engine) = shared.engine.try_lock() {
                if engine.progress(shared.now()) && engine.channels.is_empty() {
                    engine.note_watching();
                }
                if !may_wait_for_an_answer(&engine) {
                    engine.send(shared.now());
                }
            }
        }
    }

    /// So many times in a row are enough.
    const SURE: u8 = 4;
    /// More than this is not counted: an application may change its ways.
    const CERTAIN: u8 = 8;

    fn leaves_it_to_the_application(&self) -> bool {
        self.drives >= Self::SURE
    }

    /// While it is not sure, one look at an application that does not drive is enough to
    /// begin anew. Once it is, such a look may have fallen between two calls.
    fn note(&mut self, drives: bool) {
        if drives && self.leaves_it_to_the_application() {
            self.absence = LONGEST_ABSENCE.min(self.absence * 2);
        } else if !drives {
            self.absence = SHORTEST_ABSENCE;
        }
        self.drives = if drives {
            Self::CERTAIN.min(self.drives + 1)
        } else {
            let doubted = self.drives.saturating_sub(2);
            if doubted < Self::SURE { 0 } else { doubted }
        };
    }
}

/// Whether so many calls in so long a time are those of an application that polls.
fn is_polling(calls: u64, time: Duration) -> bool {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    calls > 1 && time < POLLS.saturating_mul(calls)
}

/// Whether what is to be sent is acknowledgements, and the application watches memory. One
/// that waits for events expects its peer's acknowledgement before the peer's answer.
fn may_wait_for_an_answer(engine: &Engine) -> bool {
    engine.channels.is_empty() && engine.has_only_acknowledgements_to_send()
}

/// Waits for a packet, a timer or half a millisecond. The application's calls wake nobody.
/// Returns whether something came.
fn wait_for_packets(shared: &DeviceState) -> bool {
    let (wake_ups, longest) = {
        let engine = shared.engine.lock();
        let longest = match (engine.has_work(), may_wait_for_an_answer(&engine)) {
            (false, _) => APPLICATION_DRIVES,
            (true, true) => ANSWERS,
            (true, false) => {
                drop(engine);
                return wait(shared, Vec::new(), SENDS);
            }
        };
        let (wake_ups, timeout) = until_something_is_due(&engine, shared);
        (wake_ups, timeout.map_or(longest, |left| left.min(longest)))
    };
    wait(shared, packets_of(&wake_ups), longest)
}

/// Waits for any of these, for whoever wakes this thread, or for so long. Returns whether
/// any of it came.
fn wait<'a>(shared: &'a DeviceState, mut polled: Vec<PollFd<'a>>, longest: Duration) -> bool {
    polled.push(PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN));
    let woken = ppoll(&mut polled, Some(TimeSpec::from_duration(longest)), None);
    if polled.last().and_then(PollFd::any).unwrap_or(true) {
        shared.clear_wake();
    }
    woken != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_ABSENCE, Standby, is_polling};
    use std::time::Duration;

    #[test]
    fn stays_away_from_an_application_that_mostly_drives() {
        let mut standby = Standby::default();
        (0..3).for_each(|_| standby.note(true));
        assert!(
            !standby.leaves_it_to_the_application(),
            "a few may be by chance"
        );
        standby.note(false);
        (0..3).for_each(|_| standby.note(true));
        assert!(!standby.leaves_it_to_the_application(), "counted in a row");
        (0..300).for_each(|_| standby.note(true));
        for _ in 0..300 {
            assert!(
                standby.leaves_it_to_the_application(),
                "looks may fall between two calls"
            );
            (0..2).for_each(|_| standby.note(false));
            (0..4).for_each(|_| standby.note(true));
        }
    }

    #[test]
    fn comes_back_to_an_application_that_drives_no_more() {
        let mut standby = Standby::default();
        (0..300).for_each(|_| standby.note(true));
        (0..3).for_each(|_| standby.note(false));
        assert!(!standby.leaves_it_to_the_application());
        for _ in 0..300 {
            (0..3).for_each(|_| standby.note(true));
            standby.note(false);
            assert!(
                !standby.leaves_it_to_the_application(),
                "in doubt it does what there is to do"
            );
        }
    }

    #[test]
    fn looks_more_often_at_an_application_that_may_have_stopped_driving() {
        let mut standby = Standby::default();
        (0..4).for_each(|_| standby.note(true));
        let first = standby.absence;
        let mut last = first;
        for _ in 0..20 {
            standby.note(true);
            assert!(last <= standby.absence && standby.absence <= last * 2);
            last = standby.absence;
        }
        assert_eq!(last, LONGEST_ABSENCE);
        standby.note(false);
        assert!(standby.leaves_it_to_the_application() && standby.absence == first);
    }

    #[test]
    fn polling_is_many_calls_in_a_short_time() {
        let us = Duration::from_micros;
        assert!(is_polling(500, us(500)));
        assert!(is_polling(10, us(3)));
        assert!(is_polling(u64::MAX, us(500)));
        assert!(!is_polling(0, Duration::ZERO));
        assert!(
            !is_polling(1, Duration::ZERO),
            "it posts, and then watches memory"
        );
        assert!(!is_polling(30, us(500)));
    }
}
