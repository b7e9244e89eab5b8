//! The fault injection of an open device, other than faults of the network.

use super::{DeviceState, Engine};
use crate::faults::{ContextFaults, Judge, RequestJudge, TimedAction, TimedFaults};
use crate::signals;
use roce_port::{Link, LinkGate};
use roce_stack::{Event, Nic};
use roce_wire::Qpn;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

pub(crate) struct Injections {
    judge: Arc<Judge>,
    context: ContextFaults,
    timed: Option<TimedFaults>,
    link: Link,
    /// The thread that carries out what is due at a time, and the channel whose end ends it.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Injections {
    /// The injections of a device that is being opened.
    pub(crate) fn new(judge: Arc<Judge>, nic: &mut Nic) -> Self {
        Self {
            context: ContextFaults::begin(Arc::clone(&judge), nic),
            timed: TimedFaults::new(&judge),
            link: Link::default(),
            thread: None,
            judge,
        }
    }

    /// The layer that the device's port needs.
    pub(crate) fn gate(&self) -> Option<LinkGate> {
        self.timed
            .is_some()
            .then(|| LinkGate::new(self.link.clone()))
    }

    /// Carries out what is due at once, and starts a thread for what is due later, if anything is.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn start(&mut self, shared: &Arc<DeviceState>) -> io::Result<()> {
        let Some(mut timed) = self.timed.take() else {
            return Ok(());
        };
        let opened = Instant::now();
        run_due(&mut timed, opened, &mut shared.lock(), &self.link);
        let (sender, closed) = channel();
        let (shared, link) = (Arc::downgrade(shared), self.link.clone());
        let thread = Builder::new().name("roce-faults".to_owned());
        let run = move || run(&mut timed, opened, &shared, &link, &closed);
        self.thread = Some((sender, signals::spawn(thread, run)?));
        Ok(())
    }

    /// The judge of connection requests, if injections are about them.
    pub(crate) fn request_judge(&self) -> Option<RequestJudge> {
        RequestJudge::new(&self.judge)
    }

    pub(crate) fn note_new_qp(&self, qpn: Qpn) {
        self.context.note_new_qp(qpn);
    }

    /// Called for each registered region. Returns whether its memory must vanish.
    pub(crate) fn strikes_region(&self) -> bool {
        self.context.strikes_region()
    }

    /// Whether an injection has taken the link down.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.link.is_down()
    }
}

impl Drop for Injections {
    fn drop(&mut self) {
        if let Some((closes, thread)) = self.thread.take() {
            drop(closes);
            let _ = thread.join();
        }
    }
}

/// Carries out what is due, until nothing is left or the device is closed.
fn run(
    timed: &mut TimedFaults,
    opened: Instant,
    shared: &Weak<DeviceState>,
    link: &Link,
    closed: &Receiver<()>,
) {
    while let Some(at) = timed.next() {
        let left = at.saturating_sub(opened.elapsed());
        if closed.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        run_due(timed, opened, &mut shared.lock(), link);
    }
}

fn run_due(timed: &mut TimedFaults, opened: Instant, engine: &mut Engine, link: &Link) {
    while let Some(action) = timed.take_due(opened.elapsed()) {
        match action {
            TimedAction::PortDown => {
                link.set_down(true);
                engine.events.push(Event::PortError);
            }
            TimedAction::PortUp => {
                link.set_down(false);
                engine.events.push(Event::PortActive);
            }
            TimedAction::GidChange => engine.events.push(Event::GidChange),
            TimedAction::DeviceFatal => engine.stop_because("ROCE_FAULTS stopped it"),
        }
    }
}
