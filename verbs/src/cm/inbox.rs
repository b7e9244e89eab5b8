//! The inbox of the connection manager's thread: the work that other threads hand to it.

use crate::runtime::MadListener;
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_cm::{Event, Instant};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Collects work for the thread and wakes it through a descriptor that it polls.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Whether the thread has been woken up for management datagrams that it has not taken yet.
    mads_signaled: AtomicBool,
    state: Mutex<State>,
    /// The process is about to end, and the thread must notify the peers.
    must_notify_peers: AtomicBool,
    wake: EventFd,
    /// Readable once the peers have been notified.
    peers_notified: EventFd,
}

#[derive(Debug, Default)]
struct State {
    needs_agent_call: bool,
    deadline: Option<Instant>,
    events: VecDeque<Event>,
    /// Whether a sink, a listener or a connection receives events.
    has_sink: bool,
    stop: bool,
}

/// The thread's next step.
#[derive(Debug)]
pub(super) enum Next {
    Stop,
    /// The thread notifies the peers that the process ends, then calls
    /// [`Inbox::set_peers_notified`].
    NotifyPeers,
    Work {
        /// Whether to call the agent: datagrams have arrived, or a deadline of the agent has passed.
        call_agent: bool,
        /// To be delivered.
        events: VecDeque<Event>,
    },
    /// The thread polls the inbox's descriptor for at most this time, then calls [`Inbox::clear`]
    /// and [`Inbox::next`].
    Sleep(Option<Duration>),
}

impl Inbox {
    /// # Errors
    /// If the system has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = || EventFd::from_value_and_flags(0, flags);
        Ok(Self {
            mads_signaled: AtomicBool::new(false),
            state: Mutex::default(),
            must_notify_peers: AtomicBool::new(false),
            wake: event()?,
            peers_notified: event()?,
        })
    }

    /// Wakes the thread up because management datagrams have arrived. Cheap if the thread has
    /// already been woken up for earlier ones.
    pub(crate) fn mads_arrived(&self) {
        if !self.mads_signaled.swap(true, Ordering::AcqRel) {
            self.request_agent_call();
        }
    }

    pub(super) fn request_agent_call(&self) {
        self.state.lock().needs_agent_call = true;
        self.wake();
    }

    /// Adds the agent's events and replaces its deadline. Every call of the agent is followed by
    /// this call.
    pub(super) fn add_agent_output(&self, events: Vec<Event>, deadline: Option<Instant>) {
        let mut state = self.state.lock();
        let must_wake = !events.is_empty() || is_earlier(deadline, state.deadline);
        state.events.extend(events);
        state.deadline = deadline;
        drop(state);
        if must_wake {
            self.wake();
        }
    }

    pub(super) fn set_has_sink(&self) {
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

    /// Makes the thread notify the peers that the process ends. Takes no lock: the caller may be a
    /// signal handler that interrupted a thread which holds the lock.
    pub(super) fn notify_peers(&self) {
        self.must_notify_peers.store(true, Ordering::Release);
        self.wake();
    }

    /// Reports that the peers have been notified.
    pub(super) fn set_peers_notified(&self) {
        // The write fails only if the counter is full. It grows by 1 for each call, so it never is.
        let _ = self.peers_notified.write(1);
    }

    /// Readable once the peers have been notified.
    pub(super) fn peers_notified_fd(&self) -> BorrowedFd<'_> {
        self.peers_notified.as_fd()
    }

    /// The thread's next step at the time `now`.
    pub(super) fn next(&self, now: Instant) -> Next {
        if self.must_notify_peers.swap(false, Ordering::AcqRel) {
            return Next::NotifyPeers;
        }
        let mut state = self.state.lock();
        if state.stop {
            return Next::Stop;
        }
        let is_due = state.deadline.is_some_and(|at| at <= now);
        let delivers = state.has_sink && !state.events.is_empty();
        if !(state.needs_agent_call || is_due || delivers) {
            let left = state.deadline.map(|at| at.saturating_duration_since(now));
            return Next::Sleep(left);
        }
        // Datagrams that arrive from now on wake the thread up again.
        self.mads_signaled.store(false, Ordering::Release);
        let call_agent = std::mem::take(&mut state.needs_agent_call) || is_due;
        let events = if delivers {
            std::mem::take(&mut state.events)
        } else {
            VecDeque::new()
        };
        Next::Work { call_agent, events }
    }

    /// Clears the descriptor. Called before [`Inbox::next`], so that no later wake-up is lost.
    pub(super) fn clear(&self) {
        let _ = self.wake.read();
    }

    fn wake(&self) {
        // A full counter means that the thread is about to wake up already.
        let _ = self.wake.write(1);
    }
}

impl MadListener for Inbox {
    fn on_mads_arrived(&self) {
        self.mads_arrived();
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Whether a thread that waits until `known` must wake up for `deadline`.
fn is_earlier(deadline: Option<Instant>, known: Option<Instant>) -> bool {
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
    fn only_an_earlier_deadline_wakes_the_thread() {
        assert!(is_earlier(Some(at(1)), None));
        assert!(is_earlier(Some(at(1)), Some(at(2))));
        assert!(!is_earlier(Some(at(2)), Some(at(2))));
        assert!(!is_earlier(None, Some(at(2))));
    }

    #[test]
    fn each_cause_produces_work_once() {
        let inbox = Inbox::new().expect("descriptors");
        let work = |now| match inbox.next(at(now)) {
            Next::Work { call_agent, events } => (call_agent, events.len()),
            other => panic!("{other:?}"),
        };
        assert!(matches!(inbox.next(at(0)), Next::Sleep(None)));
        inbox.mads_arrived();
        inbox.mads_arrived();
        assert_eq!(work(0), (true, 0));
        inbox.add_agent_output(Vec::new(), Some(at(5)));
        let left = Duration::from_nanos(4);
        assert!(matches!(inbox.next(at(1)), Next::Sleep(Some(of)) if of == left));
        assert_eq!(work(5), (true, 0));
        // The agent has been called and has no deadline left.
        inbox.add_agent_output(Vec::new(), None);
        let connection = connection();
        inbox.add_agent_output(vec![Event::Unreachable { connection }], None);
        inbox.mads_arrived();
        // Nothing receives events yet.
        assert_eq!(work(6), (true, 0));
        inbox.set_has_sink();
        assert_eq!(work(7), (false, 1));
        inbox.notify_peers();
        assert!(matches!(inbox.next(at(8)), Next::NotifyPeers));
        assert!(matches!(inbox.next(at(8)), Next::Sleep(None)));
        inbox.stop();
        assert!(matches!(inbox.next(at(8)), Next::Stop));
    }

    /// Each cause makes the descriptor readable, so that a thread that polls it wakes up.
    #[test]
    fn each_cause_wakes_the_thread() {
        let inbox = Inbox::new().expect("descriptors");
        let connection = connection();
        let causes: [&dyn Fn(); 7] = [
            &|| inbox.set_has_sink(),
            &|| inbox.mads_arrived(),
            &|| inbox.request_agent_call(),
            &|| inbox.add_agent_output(Vec::new(), Some(at(9))),
            &|| inbox.add_agent_output(vec![Event::Unreachable { connection }], Some(at(9))),
            &|| inbox.notify_peers(),
            &|| inbox.stop(),
        ];
        for (number, cause) in causes.iter().enumerate() {
            inbox.clear();
            assert!(!is_readable(inbox.as_fd()));
            cause();
            assert!(is_readable(inbox.as_fd()), "cause {number}");
        }
        assert!(!is_readable(inbox.peers_notified_fd()));
        inbox.set_peers_notified();
        assert!(is_readable(inbox.peers_notified_fd()));
    }

    fn is_readable(fd: BorrowedFd<'_>) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("it polls") == 1
    }

    fn connection() -> roce_cm::ConnectionId {
        let range = roce_cm::QpnRange::new(1).expect("a range");
        let mut agent = roce_cm::Agent::new(roce_cm::Config::new([1; 32], range, 1));
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
        let lookup = agent.resolve_datagram(at(0), path, &request);
        lookup.expect("the lookup fits")
    }
}
