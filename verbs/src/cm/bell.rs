//! What the connection manager's thread waits for.

use crate::runtime::MadListener;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_cm::{Event, Instant};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Wakes the thread, by a descriptor that it polls.
#[derive(Debug)]
pub(super) struct Bell {
    /// Management datagrams wait, and the thread has been woken up for them.
    rung: AtomicBool,
    state: Mutex<State>,
    /// The process is about to end, and the thread must tell peers.
    leaves: AtomicBool,
    wake: EventFd,
    /// Readable once peers have been told.
    left: EventFd,
}

#[derive(Debug, Default)]
struct State {
    mads: bool,
    deadline: Option<Instant>,
    events: VecDeque<Event>,
    /// A sink, a listener or a connection takes events.
    has_sink: bool,
    stop: bool,
}

/// What the thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// The thread ends.
    Stop,
    /// The thread tells peers that the process ends, then calls [`Bell::left`].
    Leave,
    /// The thread has work.
    Work(Work),
    /// The thread polls the bell's descriptor for at most this time, then calls [`Bell::clear`] and
    /// [`Bell::next`].
    Sleep(Option<Duration>),
}

/// Work for the thread.
#[derive(Debug)]
pub(super) struct Work {
    /// The agent has datagrams to take or a deadline that has passed.
    pub(super) agent: bool,
    /// The events to deliver.
    pub(super) events: VecDeque<Event>,
}

impl Bell {
    /// # Errors
    /// If the system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = || EventFd::from_value_and_flags(0, flags);
        Ok(Self {
            rung: AtomicBool::new(false),
            state: Mutex::default(),
            leaves: AtomicBool::new(false),
            wake: event()?,
            left: event()?,
        })
    }

    /// Wakes the thread up because management datagrams have arrived. Costs next to nothing if it
    /// has been woken up for earlier ones already.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.call_agent();
        }
    }

    /// Makes the thread call the agent.
    pub(super) fn call_agent(&self) {
        self.state.lock().mads = true;
        self.wake();
    }

    /// Takes the agent's events and its next deadline, after a call of the agent.
    pub(super) fn settle(&self, events: Vec<Event>, deadline: Option<Instant>) {
        let mut state = self.state.lock();
        let wakes = !events.is_empty() || is_sooner(deadline, state.deadline);
        state.events.extend(events);
        state.deadline = deadline;
        drop(state);
        if wakes {
            self.wake();
        }
    }

    pub(super) fn has_sink(&self) {
        self.state.lock().has_sink = true;
        self.wake();
    }

    /// Makes the thread end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stop
    }

    /// Makes the thread tell peers that the process ends. Takes no lock: a signal handler may end
    /// the process while the thread that it interrupted holds one.
    pub(super) fn leave(&self) {
        self.leaves.store(true, Ordering::Release);
        self.wake();
    }

    /// Says that peers have been told.
    pub(super) fn left(&self) {
        // The write fails only if the counter is full. It grows by 1 for each call, so it never is.
        let _ = self.left.write(1);
    }

    /// Readable once peers have been told.
    pub(super) fn left_fd(&self) -> BorrowedFd<'_> {
        self.left.as_fd()
    }

    /// What the thread does next, at the time `now`.
    pub(super) fn next(&self, now: Instant) -> Next {
        if self.leaves.swap(false, Ordering::AcqRel) {
            return Next::Leave;
        }
        let mut state = self.state.lock();
        if state.stop {
            return Next::Stop;
        }
        let is_due = state.deadline.is_some_and(|at| at <= now);
        let tells = state.has_sink && !state.events.is_empty();
        if !(state.mads || is_due || tells) {
            let left = state.deadline.map(|at| at.saturating_duration_since(now));
            return Next::Sleep(left);
        }
        // Datagrams that arrive from now on ring again.
        self.rung.store(false, Ordering::Release);
        let agent = std::mem::take(&mut state.mads) || is_due;
        let events = if tells {
            std::mem::take(&mut state.events)
        } else {
            VecDeque::new()
        };
        Next::Work(Work { agent, events })
    }

    /// Clears the descriptor. Called before [`Bell::next`], so that no later wake-up is lost.
    pub(super) fn clear(&self) {
        let _ = self.wake.read();
    }

    fn wake(&self) {
        // A full counter means that the thread is about to wake up already.
        let _ = self.wake.write(1);
    }
}

impl MadListener for Bell {
    fn on_mads_arrived(&self) {
        self.ring();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Whether a thread that waits until `known` must wake up for `deadline`.
fn is_sooner(deadline: Option<Instant>, known: Option<Instant>) -> bool {
    deadline.is_some_and(|at| known.is_none_or(|known| at < known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn only_a_sooner_deadline_wakes() {
        assert!(is_sooner(Some(at(1)), None));
        assert!(is_sooner(Some(at(1)), Some(at(2))));
        assert!(!is_sooner(Some(at(2)), Some(at(2))));
        assert!(!is_sooner(None, Some(at(2))));
    }

    #[test]
    fn each_cause_gives_its_work_once() {
        let bell = Bell::new().expect("descriptors");
        let work = |now| match bell.next(at(now)) {
            Next::Work(work) => (work.agent, work.events.len()),
            other => panic!("{other:?}"),
        };
        assert!(matches!(bell.next(at(0)), Next::Sleep(None)));
        bell.ring();
        bell.ring();
        assert_eq!(work(0), (true, 0));
        bell.settle(Vec::new(), Some(at(5)));
        let left = Duration::from_nanos(4);
        assert!(matches!(bell.next(at(1)), Next::Sleep(Some(of)) if of == left));
        assert_eq!(work(5), (true, 0));
        // The agent was called, and has no deadline left.
        bell.settle(Vec::new(), None);
        let connection = connection();
        bell.settle(vec![Event::Unreachable { connection }], None);
        bell.ring();
        // Nothing takes events yet.
        assert_eq!(work(6), (true, 0));
        bell.has_sink();
        assert_eq!(work(7), (false, 1));
        bell.leave();
        assert!(matches!(bell.next(at(8)), Next::Leave));
        assert!(matches!(bell.next(at(8)), Next::Sleep(None)));
        bell.stop();
        assert!(matches!(bell.next(at(8)), Next::Stop));
    }

    /// Each cause makes the descriptor readable, so that a thread that polls it wakes up.
    #[test]
    fn each_cause_wakes() {
        let bell = Bell::new().expect("descriptors");
        let connection = connection();
        let causes: [&dyn Fn(); 7] = [
            &|| bell.has_sink(),
            &|| bell.ring(),
            &|| bell.call_agent(),
            &|| bell.settle(Vec::new(), Some(at(9))),
            &|| bell.settle(vec![Event::Unreachable { connection }], Some(at(9))),
            &|| bell.leave(),
            &|| bell.stop(),
        ];
        for (number, cause) in causes.iter().enumerate() {
            bell.clear();
            assert!(!is_readable(bell.as_fd()));
            cause();
            assert!(is_readable(bell.as_fd()), "cause {number}");
        }
        assert!(!is_readable(bell.left_fd()));
        bell.left();
        assert!(is_readable(bell.left_fd()));
    }

    fn is_readable(fd: BorrowedFd<'_>) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("it polls") == 1
    }

    fn connection() -> roce_cm::ConnectionId {
        let part = roce_cm::QpnRange::new(1).expect("a part");
        let mut agent = roce_cm::Agent::new(roce_cm::Config::new([1; 32], part, 1));
        let local = std::net::IpAddr::from([10, 0, 0, 1]);
        let path = roce_cm::Path {
            local,
            remote: local,
        };
        let request = roce_cm::DatagramRequest {
            service: roce_cm::ServiceId(1),
            source_port: 0,
            pkey: roce_cm::PKey::DEFAULT,
            private: Vec::new(),
        };
        let asked = agent.resolve_datagram(at(0), path, &request);
        asked.expect("room for a lookup")
    }
}
