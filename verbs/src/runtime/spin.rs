//! Threads that poll while other threads wait for their processor.
//!
//! Polling without a pause gives the lowest latency if each polling thread has a processor of its
//! own. If there are fewer processors, two ends that wait for each other each use up their time
//! slices, in which the other could answer. So a thread that loses its processor against its will
//! waits in the kernel when it has polled in vain a few times: the next packet ends the wait.
//!
//! The number of preemptions does not tell: a short turn of the background thread counts as one,
//! too. The thread's processor time does. A thread that never sleeps, but runs for less than
//! [`FAIR_SHARE`] of the time, shares its processor.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use roce_stack::Instant;
use std::cell::RefCell;
use std::time::Duration;

/// The time over which a thread's processor time is measured, at least.
const WINDOW: Duration = Duration::from_millis(4);

/// A thread that runs for less of a window has lost its processor to others, as a fraction.
const FAIR_SHARE: (u64, u64) = (3, 4);

/// The time that a thread counts as sharing its processor after a window that showed it.
const MEMORY: Duration = Duration::from_millis(50);

/// The polls in vain before a wait, at least, and the time that they take, at least. A program that
/// hands its processor on by itself between two polls, as MPI does with more ranks than processors,
/// gets its answer sooner.
const POLLS_IN_VAIN: u32 = 16;
const TIME_IN_VAIN: Duration = Duration::from_micros(50);

/// The longest wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_micros(200);

/// What the kernel has counted for a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Its processor time, in nanoseconds.
    ran: u64,
    /// How often it gave up its processor, to sleep.
    slept: u64,
}

impl Usage {
    fn of_this_thread() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        let ran = usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds();
        Some(Self {
            ran: u64::try_from(ran).ok()?,
            slept: u64::try_from(usage.voluntary_context_switches()).ok()?,
        })
    }
}

/// The polls of one thread.
#[derive(Debug, Default)]
struct Spinner {
    in_vain: u32,
    /// The time of the first of these polls.
    in_vain_since: Instant,
    /// When the window began, and what had been counted then.
    window: Option<(Instant, Usage)>,
    /// The waits of this module in the window, and their time in nanoseconds.
    waits: u64,
    waited: u64,
    shares_until: Option<Instant>,
}

impl Spinner {
    /// Notes a poll that found nothing. Returns whether the thread should wait in the kernel.
    fn polled_in_vain(&mut self, now: Instant, usage: impl FnOnce() -> Option<Usage>) -> bool {
        if self.in_vain == 0 {
            self.in_vain_since = now;
        }
        self.in_vain += 1;
        if self.in_vain < POLLS_IN_VAIN
            || now.saturating_duration_since(self.in_vain_since) < TIME_IN_VAIN
        {
            return false;
        }
        self.in_vain = 0;
        let is_over = |(began, _): (Instant, Usage)| now.saturating_duration_since(began) >= WINDOW;
        if self.window.is_none_or(is_over)
            && let Some(usage) = usage()
        {
            self.end_window(now, usage);
        }
        self.shares_until.is_some_and(|until| now < until)
    }

    fn end_window(&mut self, now: Instant, usage: Usage) {
        if let Some((began, before)) = self.window.replace((now, usage)) {
            let elapsed = now.as_nanos().saturating_sub(began.as_nanos());
            let elapsed = elapsed.saturating_sub(self.waited);
            let ran = usage.ran.saturating_sub(before.ran);
            let sleeps = usage.slept.saturating_sub(before.slept) > self.waits;
            // A thread that comes back after a long time has done something else meanwhile.
            let is_recent = now.saturating_duration_since(began) < MEMORY;
            if is_recent && !sleeps && ran * FAIR_SHARE.1 < elapsed * FAIR_SHARE.0 {
                self.shares_until = Some(now + MEMORY);
            }
        }
        (self.waits, self.waited) = (0, 0);
    }

    fn waited(&mut self, nanos: u64) {
        self.waits += 1;
        self.waited += nanos;
    }
}

thread_local! {
    static SPINNER: RefCell<Spinner> = RefCell::default();
}

/// Notes a poll of this thread that found something.
pub(super) fn found_something() {
    SPINNER.with_borrow_mut(|spinner| spinner.in_vain = 0);
}

/// Notes a poll of this thread that found nothing. Returns whether the thread should wait in the
/// kernel, because others need its processor.
pub(super) fn polled_in_vain(now: Instant) -> bool {
    SPINNER.with_borrow_mut(|spinner| spinner.polled_in_vain(now, Usage::of_this_thread))
}

/// Notes that this thread has waited in the kernel.
pub(super) fn waited(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    SPINNER.with_borrow_mut(|spinner| spinner.waited(nanos));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls for `ms` milliseconds, in each of which the thread runs for `ran` microseconds and
    /// sleeps `sleeps` times. Returns how many of the groups of polls should be followed by a wait.
    fn poll(spinner: &mut Spinner, at: &mut (u64, Usage), ms: u64, ran: u64, sleeps: u64) -> u64 {
        let mut waits = 0;
        for _ in 0..ms {
            at.0 += 1_000_000;
            at.1.ran += ran * 1000;
            at.1.slept += sleeps;
            for step in 0..u64::from(POLLS_IN_VAIN) {
                let now = Instant::from_nanos(at.0 + step * 5000);
                waits += u64::from(spinner.polled_in_vain(now, || Some(at.1)));
            }
        }
        waits
    }

    #[test]
    fn only_a_thread_that_loses_its_processor_waits() {
        let mut at = (0, Usage::default());
        let mut spinner = Spinner::default();
        assert_eq!(poll(&mut spinner, &mut at, 100, 950, 0), 0, "it runs");
        assert_eq!(poll(&mut spinner, &mut at, 100, 300, 2), 0, "it sleeps");
        let waits = poll(&mut spinner, &mut at, 100, 500, 0);
        assert!(waits > 90, "it shares its processor: {waits}");
        let waits = poll(&mut spinner, &mut at, 200, 990, 0);
        assert!((40..60).contains(&waits), "it has it again: {waits}");
    }

    #[test]
    fn its_own_waits_count_neither_as_lost_time_nor_as_sleep() {
        let mut at = (0, Usage::default());
        let mut spinner = Spinner::default();
        poll(&mut spinner, &mut at, 20, 500, 0);
        let (mut waits, mut ran) = (0, 500);
        for _ in 0..200 {
            if poll(&mut spinner, &mut at, 1, ran, 0) > 0 {
                // Of the next millisecond, it waits for half.
                waits += 1;
                at.1.slept += 1;
                spinner.waited(490_000);
                ran = 500;
            } else {
                ran = 990;
            }
        }
        assert!(waits < 60, "nobody else ran: {waits}");
    }

    #[test]
    fn a_poll_that_finds_something_begins_the_count_again() {
        let mut spinner = Spinner {
            shares_until: Some(Instant::from_nanos(1_000_000)),
            ..Spinner::default()
        };
        for _ in 0..1000 {
            for step in 1..u64::from(POLLS_IN_VAIN) {
                let now = Instant::from_nanos(step * 5000);
                assert!(!spinner.polled_in_vain(now, || None));
            }
            spinner.in_vain = 0;
        }
        let waits = |us: u64| {
            let mut spinner = Spinner {
                shares_until: spinner.shares_until,
                ..Spinner::default()
            };
            let polls = (1..=20).map(|step| Instant::from_nanos(step * us * 1000));
            polls
                .filter(|now| spinner.polled_in_vain(*now, || None))
                .count()
        };
        assert_eq!((waits(5), waits(1)), (1, 0));
    }
}
