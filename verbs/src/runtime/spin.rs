//! Makes a polling thread sleep in the kernel when other threads need its processor.
//!
//! Polling without a pause gives the lowest latency if each polling thread has a processor of its
//! own. Two ends that share a processor each spin through a whole time slice, while the other could
//! have answered. So a thread that shares its processor waits in the kernel after several polls
//! that found nothing. The next packet ends the wait.
//!
//! The number of preemptions does not show whether a thread shares its processor, because a short
//! turn of the background thread also counts as a preemption. The thread's processor time shows it.
//! A thread that never sleeps, but runs for less than [`FAIR_SHARE`] of the time, shares its
//! processor.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use roce_stack::Instant;
use std::cell::RefCell;
use std::time::Duration;

/// The minimum time over which a thread's processor time is measured.
const WINDOW: Duration = Duration::from_millis(4);

/// A thread with a processor of its own runs for at least this fraction of a window. A thread that
/// runs for less shares its processor.
const FAIR_SHARE: (u64, u64) = (3, 4);

/// The time for which a thread counts as sharing its processor after a window that showed this.
const SHARING_LASTS: Duration = Duration::from_millis(50);

/// The minimum number of consecutive empty polls before a wait, and the minimum time that they
/// take. Before both are reached, a program that yields the processor itself between two polls, as
/// MPI does with more ranks than processors, usually gets its answer.
const MIN_EMPTY_POLLS: u32 = 16;
const MIN_EMPTY_TIME: Duration = Duration::from_micros(50);

/// The longest wait.
pub(super) const MAX_WAIT: Duration = Duration::from_micros(200);

/// The kernel's counts for a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Its processor time, in nanoseconds.
    ran_ns: u64,
    /// The number of times that it gave up its processor to sleep.
    sleeps: u64,
}

impl Usage {
    fn of_this_thread() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        let ran = usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds();
        Some(Self {
            ran_ns: u64::try_from(ran).ok()?,
            sleeps: u64::try_from(usage.voluntary_context_switches()).ok()?,
        })
    }
}

/// The polls of one thread.
#[derive(Debug, Default)]
struct Spinner {
    /// The number of consecutive polls that found nothing.
    empty_polls: u32,
    /// The time of the first of these polls.
    first_empty_poll: Instant,
    /// The time at which the window began, and the kernel's counts at that time.
    window: Option<(Instant, Usage)>,
    /// The number of waits of this module in the window, and their total time in nanoseconds.
    waits: u64,
    waited_ns: u64,
    /// The end of the time for which the thread counts as sharing its processor.
    shares_until: Option<Instant>,
}

impl Spinner {
    /// Notes a poll that found nothing. Returns whether the thread should wait in the kernel.
    fn note_empty_poll(&mut self, now: Instant, usage: impl FnOnce() -> Option<Usage>) -> bool {
        if self.empty_polls == 0 {
            self.first_empty_poll = now;
        }
        self.empty_polls += 1;
        if self.empty_polls < MIN_EMPTY_POLLS
            || now.saturating_duration_since(self.first_empty_poll) < MIN_EMPTY_TIME
        {
            return false;
        }
        self.empty_polls = 0;
        let has_ended =
            |(began, _): (Instant, Usage)| now.saturating_duration_since(began) >= WINDOW;
        if self.window.is_none_or(has_ended)
            && let Some(usage) = usage()
        {
            self.end_window(now, usage);
        }
        self.shares_until.is_some_and(|until| now < until)
    }

    /// Decides whether the thread shared its processor in the window that ends now, and begins the
    /// next window.
    fn end_window(&mut self, now: Instant, usage: Usage) {
        if let Some((began, before)) = self.window.replace((now, usage)) {
            let elapsed = now.as_nanos().saturating_sub(began.as_nanos());
            let elapsed = elapsed.saturating_sub(self.waited_ns);
            let ran = usage.ran_ns.saturating_sub(before.ran_ns);
            let has_slept = usage.sleeps.saturating_sub(before.sleeps) > self.waits;
            // If the thread did not poll for a long time, it did something else, and the window
            // says nothing.
            let is_recent = now.saturating_duration_since(began) < SHARING_LASTS;
            if is_recent && !has_slept && ran * FAIR_SHARE.1 < elapsed * FAIR_SHARE.0 {
                self.shares_until = Some(now + SHARING_LASTS);
            }
        }
        (self.waits, self.waited_ns) = (0, 0);
    }

    /// Notes a wait in the kernel of this length.
    fn note_wait(&mut self, nanos: u64) {
        self.waits += 1;
        self.waited_ns += nanos;
    }
}

thread_local! {
    static SPINNER: RefCell<Spinner> = RefCell::default();
}

/// Notes a poll of this thread that found something.
pub(super) fn note_successful_poll() {
    SPINNER.with_borrow_mut(|spinner| spinner.empty_polls = 0);
}

/// Notes a poll of this thread that found nothing. Returns whether the thread should wait in the
/// kernel, because others need its processor.
pub(super) fn note_empty_poll(now: Instant) -> bool {
    SPINNER.with_borrow_mut(|spinner| spinner.note_empty_poll(now, Usage::of_this_thread))
}

/// Notes that this thread has waited in the kernel.
pub(super) fn note_wait(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    SPINNER.with_borrow_mut(|spinner| spinner.note_wait(nanos));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls for `ms` milliseconds, in each of which the thread runs for `ran` microseconds and
    /// sleeps `sleeps` times. Returns the number of waits that the spinner asks for.
    fn poll(spinner: &mut Spinner, at: &mut (u64, Usage), ms: u64, ran: u64, sleeps: u64) -> u64 {
        let mut waits = 0;
        for _ in 0..ms {
            at.0 += 1_000_000;
            at.1.ran_ns += ran * 1000;
            at.1.sleeps += sleeps;
            for step in 0..u64::from(MIN_EMPTY_POLLS) {
                let now = Instant::from_nanos(at.0 + step * 5000);
                waits += u64::from(spinner.note_empty_poll(now, || Some(at.1)));
            }
        }
        waits
    }

    #[test]
    fn only_a_thread_that_shares_its_processor_waits() {
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
    fn waits_of_this_module_count_neither_as_preemption_nor_as_sleep() {
        let mut at = (0, Usage::default());
        let mut spinner = Spinner::default();
        poll(&mut spinner, &mut at, 20, 500, 0);
        let (mut waits, mut ran) = (0, 500);
        for _ in 0..200 {
            if poll(&mut spinner, &mut at, 1, ran, 0) > 0 {
                // It waits for half of the next millisecond.
                waits += 1;
                at.1.sleeps += 1;
                spinner.note_wait(490_000);
                ran = 500;
            } else {
                ran = 990;
            }
        }
        assert!(waits < 60, "nobody else ran: {waits}");
    }

    #[test]
    fn a_successful_poll_resets_the_count() {
        let mut spinner = Spinner {
            shares_until: Some(Instant::from_nanos(1_000_000)),
            ..Spinner::default()
        };
        for _ in 0..1000 {
            for step in 1..u64::from(MIN_EMPTY_POLLS) {
                let now = Instant::from_nanos(step * 5000);
                assert!(!spinner.note_empty_poll(now, || None));
            }
            spinner.empty_polls = 0;
        }
        let waits = |us: u64| {
            let mut spinner = Spinner {
                shares_until: spinner.shares_until,
                ..Spinner::default()
            };
            let polls = (1..=20).map(|step| Instant::from_nanos(step * us * 1000));
            polls
                .filter(|now| spinner.note_empty_poll(*now, || None))
                .count()
        };
        assert_eq!((waits(5), waits(1)), (1, 0));
    }
}
