//! The parts that sockets of both kinds share: a state behind a lock, and threads that wait for it to change.

use crate::error::Error;
use crate::nic::Nic;
use crate::wait::{Patience, Spinning, Turn, sleep};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_trust::signals::restarts_calls;
use roce_verbs::device::Driving;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A state that threads wait for.
pub(crate) trait Awaited {
    /// Handles what has happened. Lets each NIC work first for which `drive` says so. Returns
    /// whether there was anything.
    fn progress(&mut self, drive: impl FnMut(*const Nic) -> bool) -> bool;

    /// Asks for an event at the descriptors when something happens. The caller then calls
    /// [`Awaited::progress`] once more before it sleeps.
    fn arm(&mut self);

    /// The descriptors that become readable when something happens.
    fn descriptors(&self, each: impl FnMut(RawFd));

    /// When a thread that sleeps calls [`Awaited::progress`] again even if nothing happens; `None`
    /// means that it need not.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Lets the background threads of the NICs work while this thread sleeps.
    fn hand_over(&self);

    /// Lets the calling thread drive the NIC while it sleeps. `None` if there is not exactly one, or
    /// another thread does that.
    fn drive_while_waiting(&self) -> Option<Driving> {
        None
    }

    /// What a program need not wait for, as bits of `poll`.
    fn ready(&self) -> i16;
}

/// A state, its lock, and what wakes up the threads that wait.
pub(crate) struct Shared<S> {
    /// Readable while threads that sleep must look at the state again.
    news: EventFd,
    nonblocking: AtomicBool,
    /// The number of threads that sleep until something happens. It changes with `state` locked.
    sleepers: AtomicUsize,
    pub(crate) state: Mutex<S>,
}

impl<S: Awaited> Shared<S> {
    pub(crate) fn new(state: S) -> Result<Self, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            news: EventFd::from_value_and_flags(0, flags)?,
            nonblocking: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            state: Mutex::new(state),
        })
    }

    /// The descriptor that is readable while threads that sleep must look at the state again.
    pub(crate) fn news_fd(&self) -> RawFd {
        self.news.as_raw_fd()
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// The patience of a call that waits at most `limit`.
    pub(crate) fn patience(&self, dont_wait: bool, limit: Option<Duration>) -> Patience {
        if dont_wait || self.is_nonblocking() {
            Patience::None
        } else {
            Patience::of(limit)
        }
    }

    /// Calls `attempt` until it gives a result, each time after everything has been handled that
    /// has happened to the socket.
    ///
    /// # Errors
    /// EAGAIN if the patience is over, and the errors of `attempt`. EINTR after a signal, unless
    /// the patience has no end and the program's handlers restart calls, as with the kernel's
    /// sockets.
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
            self.progress_locked(&mut state, true);
            turn.note_progress();
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            if patience.is_over() {
                return Err(Errno::EAGAIN.into());
            }
            drop(state);
            if spinning.goes_on() {
                continue;
            }
            let mut state = self.state.lock();
            state.arm();
            self.progress_locked(&mut state, true);
            if let Some(result) = attempt(&mut state)? {
                return Ok(result);
            }
            descriptors.clear();
            state.descriptors(|fd| descriptors.push(fd));
            descriptors.push(self.news_fd());
            let until = patience.or_at(state.due());
            turn.begin(|| state.drive_while_waiting());
            state.hand_over();
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            drop(state);
            let readable = descriptors.iter().map(|fd| (*fd, libc::POLLIN));
            let slept = match turn.sleep(readable, until.left()) {
                Ok(false) => sleep(&descriptors, until.left()),
                slept => slept.map(drop),
            };
            self.end_sleep();
            match slept {
                Err(Errno::EINTR) if patience.is_endless() && restarts_calls() => {}
                slept => slept?,
            }
        }
    }

    /// Handles what has happened to the socket, and lets sleeping threads look at the result.
    pub(crate) fn progress_locked(&self, state: &mut S, drive: bool) {
        if state.progress(|_| drive) {
            self.announce();
        }
    }

    /// Something has changed, and the caller has the state locked: wakes up the threads that sleep.
    pub(crate) fn announce(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            // This fails if the counter is full, and then the descriptor is readable.
            let _ = self.news.write(1);
        }
    }

    /// A thread has slept. The descriptor stays readable until the last one has woken up.
    pub(crate) fn end_sleep(&self) {
        let _locked = self.state.lock();
        if self.sleepers.fetch_sub(1, Ordering::Relaxed) == 1 {
            // This fails if nothing was announced.
            let _ = self.news.read();
        }
    }

    /// For `poll`: handles what has happened. Lets each NIC work first for which `drive` says so.
    /// Returns whether there was anything.
    pub(crate) fn progress(&self, drive: impl FnMut(*const Nic) -> bool) -> bool {
        let mut state = self.state.lock();
        let changed = state.progress(drive);
        if changed {
            self.announce();
        }
        changed
    }

    /// For `poll`: what the program need not wait for.
    pub(crate) fn ready(&self, events: i16) -> i16 {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        self.state.lock().ready() & (events | always)
    }

    /// For `poll`: see [`Awaited::drive_while_waiting`].
    pub(crate) fn drive_while_waiting(&self) -> Option<Driving> {
        self.state.lock().drive_while_waiting()
    }

    /// For `poll`: the thread is about to sleep until one of these descriptors is readable, or until
    /// the time that this returns. It then calls [`Shared::end_sleep`].
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
