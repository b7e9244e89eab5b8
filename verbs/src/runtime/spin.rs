//! Makes a polling thread hand its processor on when other threads need it.
//!
//! Polling without a pause gives the lowest latency if each polling thread has a processor of its
//! own. Two ends that share a processor each spin through a whole time slice, while the other could
//! have answered. The number of preemptions does not show whether a thread shares its processor,
//! because a short turn of the background thread also counts as a preemption. The thread's processor
//! time shows it: a thread that never sleeps, but runs for less than [`FAIR_SHARE`] of the time,
//! shares its processor.
//!
//! Such a thread yields its processor after several polls that found nothing. If the others poll
//! too and yield as well, as with more ranks of MPI than processors, it is back after microseconds.
//! If they compute, it is back after a time slice. Then it waits in the kernel instead, where the
//! next packet wakes it up.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use roce_stack::Instant;
use std::cell::RefCell;
use std::time::Duration;

/// The minimum time over which a thread's processor time is measured.
const WINDOW: Duration = Duration::from_millis(4);

/// A thread with a processor of its own runs for at least this fraction of a window. A thread that
/// runs for less shares its processor.
const FAIR_SHARE: (u128, u128) = (3, 4);

/// The time for which a decision to yield or to wait holds.
const SHARING_LASTS: Duration = Duration::from_millis(50);

/// The number of consecutive empty polls before a thread yields.
const EMPTY_POLLS_BEFORE_YIELD: u32 = 4;

/// If a yield takes longer, the other threads on the processor do not yield it.
const LONG_YIELD: Duration = Duration::from_micros(500);

/// The minimum number of consecutive empty polls before a wait, and the minimum time that they
/// take. Most answers come before.
const MIN_EMPTY_POLLS: u32 = 16;
const MIN_EMPTY_TIME: Duration = Duration::from_micros(50);

pub(super) const MAX_WAIT: Duration = Duration::from_micros(200);

/// The next step of a thread after a poll that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It goes on at once.
    None,
    /// It lets other threads run that are ready to.
    Yield,
    /// It waits in the kernel for a packet.
    Wait,
}

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

    /// Whether a thread with these counts at the end of a window shared its processor. `before` are
    /// its counts at the beginning.
    fn shows_sharing(self, before: Self, window: Duration) -> bool {
        let ran = u128::from(self.ran_ns.saturating_sub(before.ran_ns));
        let is_little = ran * FAIR_SHARE.1 < window.as_nanos() * FAIR_SHARE.0;
        // If the thread did not poll for a long time, it did something else, and the window says
        // nothing.
        is_little && self.sleeps == before.sleeps && window < SHARING_LASTS
    }
}

#[derive(Debug, Default)]
struct Spinner {
    /// The number of consecutive polls that found nothing.
    empty_polls: u32,
    first_empty_poll: Instant,
    /// The time at which the window began, and the kernel's counts at that time. `None` while the
    /// thread waits, because its sleeps hide what the others do.
    window: Option<(Instant, Usage)>,
    /// The end of the time for which the thread yields.
    yields_until: Option<Instant>,
    /// The end of the time for which the thread waits.
    waits_until: Option<Instant>,
}

impl Spinner {
    fn note_empty_poll(&mut self, now: Instant, usage: impl FnOnce() -> Option<Usage>) -> Pause {
        if self.empty_polls == 0 {
            self.first_empty_poll = now;
        }
        self.empty_polls += 1;
        let lasts = |until: Option<Instant>| until.is_some_and(|until| now < until);
        let empty_for = now.saturating_duration_since(self.first_empty_poll);
        if self.empty_polls >= MIN_EMPTY_POLLS && empty_for >= MIN_EMPTY_TIME {
            self.empty_polls = 0;
            if lasts(self.waits_until) {
                return Pause::Wait;
            }
            self.watch(now, usage);
        }
        let yields = self.empty_polls >= EMPTY_POLLS_BEFORE_YIELD && !lasts(self.waits_until);
        if yields && lasts(self.yields_until) {
            Pause::Yield
        } else {
            Pause::None
        }
    }

    /// Ends the window if it is long enough, and decides whether the thread shared its processor.
    fn watch(&mut self, now: Instant, usage: impl FnOnce() -> Option<Usage>) {
        let window = self.window;
        let length = window.map(|(began, _)| now.saturating_duration_since(began));
        if length.is_some_and(|length| length < WINDOW) {
            return;
        }
        let Some(usage) = usage() else { return };
        self.window = Some((now, usage));
        if let (Some((_, before)), Some(length)) = (window, length)
            && usage.shows_sharing(before, length)
        {
            self.yields_until = Some(now + SHARING_LASTS);
        }
    }

    /// Notes that the thread yielded, and was back at `now`, after `time`.
    fn note_yield(&mut self, now: Instant, time: Duration) {
        if time > LONG_YIELD {
            self.waits_until = Some(now + SHARING_LASTS);
            self.yields_until = Some(now + 2 * SHARING_LASTS);
            self.window = None;
        }
    }
}

thread_local! {
    static SPINNER: RefCell<Spinner> = RefCell::default();
}

/// Notes a poll of this thread that found something.
pub(super) fn note_successful_poll() {
    SPINNER.with_borrow_mut(|spinner| spinner.empty_polls = 0);
}

/// Notes a poll of this thread that found nothing. Returns what the thread should do now.
pub(super) fn note_empty_poll(now: Instant) -> Pause {
    SPINNER.with_borrow_mut(|spinner| spinner.note_empty_poll(now, Usage::of_this_thread))
}

/// Notes that this thread yielded, and was back at `now`, after `time`.
pub(super) fn note_yield(now: Instant, time: Duration) {
    SPINNER.with_borrow_mut(|spinner| spinner.note_yield(now, time));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that polls, and finds nothing.
    #[derive(Default)]
    struct Thread {
        spinner: Spinner,
        at_ns: u64,
        usage: Usage,
    }

    /// How the processor of a thread is shared.
    #[derive(Clone, Copy)]
    struct Processor {
        /// The part of each millisecond for which the thread runs, in microseconds.
        ran_us: u64,
        /// How often the thread sleeps in each millisecond, for reasons of its own.
        sleeps: u64,
        /// The time that a yield takes.
        yield_takes: Duration,
    }

    /// The pauses that a spinner asks for.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Pauses {
        yields: u64,
        waits: u64,
    }

    impl Thread {
        /// Polls for `ms` milliseconds, 200 times in each.
        fn poll(&mut self, ms: u64, processor: Processor) -> Pauses {
            let mut pauses = Pauses::default();
            for _ in 0..ms {
                self.usage.ran_ns += processor.ran_us * 1000;
                self.usage.sleeps += processor.sleeps;
                for step in 1..=200 {
                    let now = Instant::from_nanos(self.at_ns + step * 5000);
                    match self.spinner.note_empty_poll(now, || Some(self.usage)) {
                        Pause::None => {}
                        Pause::Yield => {
                            pauses.yields += 1;
                            self.spinner.note_yield(now, processor.yield_takes);
                        }
                        Pause::Wait => pauses.waits += 1,
                    }
                }
                self.at_ns += 1_000_000;
            }
            pauses
        }
    }

    const ALONE: Processor = Processor {
        ran_us: 950,
        sleeps: 0,
        yield_takes: Duration::from_micros(1),
    };
    const BESIDE_A_THREAD_THAT_YIELDS: Processor = Processor {
        ran_us: 500,
        sleeps: 0,
        yield_takes: Duration::from_micros(5),
    };
    const BESIDE_A_THREAD_THAT_COMPUTES: Processor = Processor {
        ran_us: 500,
        sleeps: 0,
        yield_takes: Duration::from_millis(3),
    };

    #[test]
    fn a_thread_with_a_processor_of_its_own_spins() {
        let mut thread = Thread::default();
        assert_eq!(thread.poll(1000, ALONE), Pauses::default());
    }

    #[test]
    fn a_thread_that_sleeps_for_reasons_of_its_own_spins() {
        let sleeps = Processor {
            ran_us: 300,
            sleeps: 2,
            yield_takes: Duration::ZERO,
        };
        assert_eq!(Thread::default().poll(1000, sleeps), Pauses::default());
    }

    /// With four ranks of Open MPI on two processors, waits in the kernel made half a round trip of
    /// 8 bytes take 60 µs. With yields, it takes 15.
    #[test]
    fn threads_that_share_a_processor_and_poll_yield_to_each_other() {
        let mut thread = Thread::default();
        let pauses = thread.poll(1000, BESIDE_A_THREAD_THAT_YIELDS);
        assert_eq!(pauses.waits, 0);
        assert!(pauses.yields > 100_000, "{pauses:?}");
        let pauses = thread.poll(1000, ALONE);
        assert!(pauses.yields < 12_000, "at most 60 ms more: {pauses:?}");
    }

    #[test]
    fn a_thread_that_shares_its_processor_with_one_that_computes_waits() {
        let mut thread = Thread::default();
        let pauses = thread.poll(1000, BESIDE_A_THREAD_THAT_COMPUTES);
        assert!(pauses.yields < 25, "one each 50 ms: {pauses:?}");
        assert!(pauses.waits > 10_000, "{pauses:?}");
        // While it waits, it neither runs nor is preempted, so nothing shows that it is alone.
        let pauses = thread.poll(1000, ALONE);
        assert!(pauses.waits <= 1000, "at most 50 ms more: {pauses:?}");
    }

    #[test]
    fn a_successful_poll_resets_the_count() {
        for (polls, pause) in [
            (EMPTY_POLLS_BEFORE_YIELD - 1, Pause::None),
            (EMPTY_POLLS_BEFORE_YIELD, Pause::Yield),
        ] {
            let mut spinner = Spinner {
                yields_until: Some(Instant::from_nanos(1_000_000)),
                ..Spinner::default()
            };
            for _ in 0..100 {
                let now = Instant::from_nanos(1000);
                let last = (0..polls).map(|_| spinner.note_empty_poll(now, || None));
                assert_eq!(last.last(), Some(pause));
                spinner.empty_polls = 0;
            }
        }
    }
}
