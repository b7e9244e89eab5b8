//! The common part of both types of socket: a state behind a lock, and threads that wait for changes.

use crate::error::Error;
use crate::nic::Nic;
use crate::wait::{Patience, Spinning, Turn, readable};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_trust::signals::restarts_calls;
use roce_verbs::device::Driving;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A state that threads wait on.
pub(crate) trait Awaited {
    /// Handles pending events, after driving each NIC that `drive` selects. Returns whether there were
    /// any.
    fn progress(&mut self, drive: impl FnMut(*const Nic) -> bool) -> bool;

    /// Arms the descriptors for the next event. Call [`Awaited::progress`] once more before sleeping.
    fn arm(&mut self);

    /// The descriptors that become readable when something happens.
    fn descriptors(&self, each: impl FnMut(RawFd));

    /// When a sleeping thread must call [`Awaited::progress`] even without an event.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Hands the NICs over to their background threads while this thread sleeps.
    fn hand_over(&self);

    /// Whether a call drives the NIC even if it need not wait.
    fn needs_driving(&self) -> bool {
        true
    }

    /// Lets the calling thread drive the NIC while it sleeps. `None` if there is not exactly one NIC, or
    /// another thread drives it.
    fn drive_while_waiting(&self) -> Option<Driving> {
        None
    }

    /// The ready events, as `poll` bits.
    fn ready(&self) -> i16;
}

/// A state, its lock, and the means to wake up waiting threads.
pub(crate) struct Shared<S> {
    /// Readable while sleeping threads must check the state.
    news: EventFd,
    nonblocking: AtomicBool,
    /// The number of sleeping threads. Changed only with `state` locked.
    sleepers: AtomicUsize,
    /// Whether `news` is readable. Changed only with `state` locked.
    has_news: AtomicBool,
    pub(crate) state: Mutex<S>,
}

impl<S: Awaited> Shared<S> {
    pub(crate) fn new(state: S) -> Result<Self, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            news: EventFd::from_value_and_flags(0, flags)?,
            nonblocking: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            has_news: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    /// The descriptor that is readable while sleeping threads must check the state.
    pub(crate) fn news_fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// The patience of a call with the timeout `limit`.
    pub(crate) fn patience(&self, dont_wait: bool, limit: Option<Duration>) -> Patience {
        if dont_wait || self.is_nonblocking() {
            Patience::None
        } else {
            Patience::with_limit(limit)
        }
    }

    /// Calls `attempt` until it returns a result, each time after handling all pending events.
    ///
    /// # Errors
    /// EAGAIN when the patience is over, and the errors of `attempt`. EINTR after a signal, unless there
    /// is no timeout and the program's handlers restart calls, as with kernel sockets.
    pub(crate) fn wait<T>(
        &self,
        patience: Patience,
        mut attempt: impl FnMut(&mut S) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut spinning = Spinning::default();
        let mut turn = Turn::default();
        let mut descriptors = Vec::new();
        loop {
            let mut state = self.state.lock();
            // Fast path: driving the NIC takes system calls, which this call may not need.
            self.progress_locked(&mut state, false);
            turn.note_progress();
            if !state.needs_driving()
                && let Some(result) = attempt(&mut state)?
            {
                return Ok(result);
            }
            self.progress_locked(&mut state, true);
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            if patience.is_over() {
                return Err(Errno::EAGAIN.into());
            }
            drop(state);
            if spinning.may_spin() {
                spinning.pause();
                continue;
            }
            let mut state = self.state.lock();
            state.arm();
            self.progress_locked(&mut state, true);
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            descriptors.clear();
            state.descriptors(|fd| descriptors.push(readable(fd)));
            descriptors.push(readable(self.news_fd()));
            let until = patience.earlier_of(state.due());
            turn.begin(|| state.drive_while_waiting());
            state.hand_over();
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            drop(state);
            let slept = turn.sleep(&mut descriptors, until.left());
            self.end_sleep();
            match slept {
                Err(error)
                    if error.errno() == Errno::EINTR
                        && patience.is_endless()
                        && restarts_calls() => {}
                slept => slept?,
            }
        }
    }

    /// Handles pending events, and wakes up sleeping threads if there were any.
    pub(crate) fn progress_locked(&self, state: &mut S, drive: bool) {
        if state.progress(|_| drive) {
            self.wake_sleepers();
        }
    }

    /// Wakes up sleeping threads after a change. The caller holds the state's lock.
    pub(crate) fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 && !self.has_news.swap(true, Ordering::Relaxed)
        {
            // The counter is 0, so this does not fail.
            let _ = self.news.write(1);
        }
    }

    /// Called after a thread has slept. The descriptor stays readable until the last one has woken up.
    pub(crate) fn end_sleep(&self) {
        let _locked = self.state.lock();
        if self.sleepers.fetch_sub(1, Ordering::Relaxed) == 1
            && self.has_news.swap(false, Ordering::Relaxed)
        {
            // The counter is 1, so this does not fail.
            let _ = self.news.read();
        }
    }

    /// For `poll`: see [`Awaited::progress`].
    pub(crate) fn progress(&self, drive: impl FnMut(*const Nic) -> bool) -> bool {
        let mut state = self.state.lock();
        let changed = state.progress(drive);
        if changed {
            self.wake_sleepers();
        }
        changed
    }

    /// For `poll`: the ready events among `events`.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.state.lock().ready() & (events | always)
    }

    /// For `poll`: see [`Awaited::drive_while_waiting`].
    pub(crate) fn drive_while_waiting(&self) -> Option<Driving> {
        self.state.lock().drive_while_waiting()
    }

    /// For `poll`: called before the thread sleeps until one of these descriptors is readable, or until
    /// the returned time. Must be followed by [`Shared::end_sleep`].
    pub(crate) fn begin_sleep(&self, mut each: impl FnMut(RawFd)) -> Option<Instant> {
        let mut state = self.state.lock();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        state.arm();
        self.progress_locked(&mut state, false);
        state.descriptors(&mut each);
        each(self.news_fd());
        state.hand_over();
        state.due()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state that counts how often it lets a NIC work.
    #[derive(Default)]
    struct Counting {
        needs_driving: bool,
        driven: usize,
    }

    impl Awaited for Counting {
        fn progress(&mut self, mut drive: impl FnMut(*const Nic) -> bool) -> bool {
            self.driven += usize::from(drive(std::ptr::null()));
            false
        }

        fn arm(&mut self) {}

        fn descriptors(&self, _: impl FnMut(RawFd)) {}

        fn hand_over(&self) {}

        fn needs_driving(&self) -> bool {
            self.needs_driving
        }

        fn ready(&self) -> i16 {
            0
        }
    }

    /// Each time that the NIC works costs system calls.
    #[test]
    fn a_call_that_need_not_wait_leaves_the_nic_alone() {
        for (needs_driving, tries, driven) in [(false, 0, 0), (false, 1, 1), (true, 0, 1)] {
            let state = Counting {
                needs_driving,
                driven: 0,
            };
            let shared = Shared::new(state).expect("a descriptor");
            let mut fails = tries;
            let done = shared.wait(Patience::None, |_| {
                let is_done = fails == 0;
                fails -= usize::from(!is_done);
                Ok(is_done.then_some(()))
            });
            done.expect("done");
            assert_eq!(
                shared.state.lock().driven,
                driven,
                "{needs_driving}, {tries}"
            );
        }
    }

    #[test]
    fn the_descriptor_has_news_while_threads_sleep_only() {
        let shared = Shared::new(Counting::default()).expect("a descriptor");
        let has_news = || {
            let mut fds = [readable(shared.news_fd())];
            let found = crate::wait::system_poll(&mut fds, Some(Duration::ZERO));
            found.expect("polled") == 1
        };
        shared.wake_sleepers();
        assert!(!has_news(), "nobody sleeps");
        for _ in 0..2 {
            for _ in 0..2 {
                shared.begin_sleep(|_| {});
            }
            shared.wake_sleepers();
            shared.wake_sleepers();
            assert!(has_news());
            shared.end_sleep();
            assert!(has_news(), "another thread sleeps");
            shared.end_sleep();
            assert!(!has_news());
        }
    }
}
