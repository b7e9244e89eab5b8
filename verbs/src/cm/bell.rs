//! What the connection manager's thread waits for.

use parking_lot::{Condvar, Mutex};
use roce_cm::{Event, Instant};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes the thread, which sleeps without a deadline if there is none.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Management datagrams wait, and the thread has been told.
    rung: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mads: bool,
    deadline: Option<Instant>,
    events: VecDeque<Event>,
    /// Somebody takes events.
    has_sink: bool,
    stop: bool,
}

/// What the thread has to do.
#[derive(Debug)]
pub(super) struct Work {
    /// The agent has something to do.
    pub(super) agent: bool,
    /// For the sink.
    pub(super) events: VecDeque<Event>,
}

impl Bell {
    /// Management datagrams wait. Costs nothing to speak of if they did before.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.state.lock().mads = true;
            self.changed.notify_one();
        }
    }

    /// The agent has done something: these are its events, and when it wants to be called.
    pub(super) fn settle(&self, events: Vec<Event>, deadline: Option<Instant>) {
        let mut state = self.state.lock();
        let wakes = !events.is_empty() || is_sooner(deadline, state.deadline);
        state.events.extend(events);
        state.deadline = deadline;
        drop(state);
        if wakes {
            self.changed.notify_one();
        }
    }

    pub(super) fn has_sink(&self) {
        self.state.lock().has_sink = true;
        self.changed.notify_one();
    }

    /// The thread is to end.
    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().stop
    }

    /// Waits for something to do; nothing if it is time to end. `now` reads the clock.
    pub(super) fn wait(&self, now: impl Fn() -> Instant) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            let now = now();
            let is_due = state.deadline.is_some_and(|at| at <= now);
            let tells = state.has_sink && !state.events.is_empty();
            if state.mads || is_due || tells {
                // What comes from now on rings again.
                self.rung.store(false, Ordering::Release);
                let agent = std::mem::take(&mut state.mads) || is_due;
                let events = if tells {
                    std::mem::take(&mut state.events)
                } else {
                    VecDeque::new()
                };
                return Some(Work { agent, events });
            }
            match state.deadline {
                None => self.changed.wait(&mut state),
                Some(at) => {
                    let left = at.saturating_duration_since(now);
                    let _ = self.changed.wait_for(&mut state, left);
                }
            }
        }
    }
}

/// Whether a thread that waits for `known` has to be woken for `deadline`.
fn is_sooner(deadline: Option<Instant>, known: Option<Instant>) -> bool {
    deadline.is_some_and(|at| known.is_none_or(|known| at < known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
        let bell = Bell::default();
        let work = |now| {
            let work = bell.wait(|| at(now)).expect("not stopped");
            (work.agent, work.events.len())
        };
        bell.ring();
        bell.ring();
        assert_eq!(work(0), (true, 0));
        bell.settle(Vec::new(), Some(at(5)));
        assert_eq!(work(5), (true, 0));
        // The agent was called, and has set another one.
        bell.settle(Vec::new(), None);
        let connection = connection();
        bell.settle(vec![Event::Unreachable { connection }], None);
        bell.ring();
        // Nobody takes events yet.
        assert_eq!(work(6), (true, 0));
        bell.has_sink();
        assert_eq!(work(7), (false, 1));
        bell.stop();
        assert!(bell.wait(|| at(8)).is_none());
    }

    /// A thread that sleeps is woken by each of them.
    #[test]
    fn who_sleeps_is_woken() {
        let bell = Bell::default();
        bell.has_sink();
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let bell = &bell;
            scope.spawn(move || {
                while let Some(work) = bell.wait(|| at(0)) {
                    let _ = tell.send((work.agent, work.events.len()));
                }
            });
            bell.ring();
            assert_eq!(told.recv(), Ok((true, 0)));
            let connection = connection();
            bell.settle(vec![Event::Unreachable { connection }], None);
            assert_eq!(told.recv(), Ok((false, 1)));
            bell.settle(Vec::new(), Some(at(0)));
            assert_eq!(told.recv(), Ok((true, 0)));
            bell.stop();
        });
    }

    fn connection() -> roce_cm::ConnectionId {
        let part = roce_cm::QpnPart::new(1).expect("a part");
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
