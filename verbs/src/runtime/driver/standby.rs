//! The background thread while the application calls.
//!
//! An application that polls drives the NIC better than any other thread: if packets woke this
//! thread up, it would only take the processor away from the application. An application that calls
//! now and then, and between its calls watches its memory for a peer's writes, does not drive the
//! NIC meanwhile. Two observations tell them apart: how often the application calls while this
//! thread waits, and whether it is in a call at the end of the wait. (An application that keeps a
//! link busy calls seldom, but spends its time in these calls.) The time of its last call does not
//! tell them apart: an application that polls makes no calls while this thread has its processor.
//! While the application mostly drives, this thread backs off.

use super::APPLICATION_DRIVES;
use crate::runtime::DeviceState;
use crate::runtime::Engine;
use crate::runtime::wait::{packets_of, until_something_is_due};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The maximum average time between two calls of an application that polls.
const POLLS: Duration = Duration::from_micros(5);

/// The time that an acknowledgement waits, so that it can leave together with the application's
/// answer. If it left at once, it would wake up a thread of the peer. A peer that polls only until
/// the acknowledgement arrives, and then watches its memory, would also not drive its NIC when the
/// answer arrives.
const ANSWERS: Duration = Duration::from_micros(100);

/// The time that this thread leaves posted requests alone. Most of the time, the call that posted
/// them is still in progress, holds the NIC, and sends them itself.
const SENDS: Duration = Duration::from_micros(100);

/// The first back-off. An application that was driving may watch its memory by now, so the thread
/// checks again after this time. It doubles with each check that finds the application driving.
const SHORTEST_ABSENCE: Duration = Duration::from_micros(50);

/// The longest back-off. If an application has driven the NIC for at least this long and then stops
/// without [`DeviceState::hand_over`], peers and timers wait until a check finds no call within
/// [`APPLICATION_DRIVES`]: at most 2.5 ms. A check costs the application's processor 27 us,
/// including the timer, context switches and cold caches.
const LONGEST_ABSENCE: Duration = Duration::from_millis(2);

/// What the last checks of a calling application found.
#[derive(Debug)]
pub(super) struct Standby {
    /// The confidence that the application drives the NIC: 0 to [`Standby::CERTAIN`].
    drives: u8,
    /// The next back-off.
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
    /// Waits for work, for at most two milliseconds, and does it unless the application polls.
    pub(super) fn take_turn(&mut self, shared: &DeviceState) {
        let (began, calls) = (Instant::now(), shared.calls());
        let woken = if self.leaves_it_to_the_application() {
            wait(shared, Vec::new(), self.absence)
        } else {
            wait_for_packets(shared)
        };
        // A packet that wakes up this thread may also wake up the application, which is then in a
        // call whether it polls or not.
        let in_call = shared.engine.is_locked();
        let calls = shared.calls().wrapping_sub(calls);
        if is_polling(calls, began.elapsed()) || in_call && !woken {
            self.note(true);
        } else if !in_call {
            self.note(false);
            // If another thread has the lock, it does all the work.
            if let Some(mut engine) = shared.engine.try_lock() {
                engine.progress(shared.now());
                if !may_wait_for_an_answer(&engine) {
                    engine.send(shared.now());
                }
            }
        }
    }

    /// This confidence is enough to back off.
    const SURE: u8 = 4;
    /// The confidence does not grow beyond this, because an application may change its behaviour.
    const CERTAIN: u8 = 8;

    fn leaves_it_to_the_application(&self) -> bool {
        self.drives >= Self::SURE
    }

    /// Notes a check. One that finds the application not driving may have fallen between two calls,
    /// so it lowers the confidence by 2. If the result is below [`Standby::SURE`], the confidence
    /// becomes 0.
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

/// Whether `calls` calls in `time` are those of an application that polls.
fn is_polling(calls: u64, time: Duration) -> bool {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    calls > 1 && time < POLLS.saturating_mul(calls)
}

/// Whether the only packets to send are acknowledgements, and the application has no completion
/// channel. An application that waits for events expects its peer's acknowledgement before the
/// peer's answer.
fn may_wait_for_an_answer(engine: &Engine) -> bool {
    engine.channels.is_empty() && engine.has_only_acknowledgements_to_send()
}

/// Waits for a packet or a timer, for at most half a millisecond, or [`ANSWERS`] or [`SENDS`] if
/// packets wait to be sent. Calls of the application do not end the wait. Returns whether something
/// came.
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
        let (wake_ups, timeout) = until_something_is_due(&engine, shared.now());
        (wake_ups, timeout.map_or(longest, |left| left.min(longest)))
    };
    wait(shared, packets_of(&wake_ups), longest)
}

/// Waits for one of `polled`, for a wake-up of this thread, or for `longest`. Returns whether it
/// was woken up before `longest` passed.
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
                "in doubt, it does the work"
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
