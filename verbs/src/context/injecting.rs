//! The faults that an open device injects.

use super::Context;
use crate::datapath::Layers;
use crate::error::OpenError;
use crate::runtime::{DeviceState, Engine, Injector, RequestFate, RequestJudge};
use crate::settings::OpenOptions;
use roce_faults::{
    ConnectionJudge, DeviceFaults, FaultLayer, Faults, Judge, Link, LinkGate, RequestFault,
    TimedAction, TimedFaults,
};
use roce_stack::{Event, Nic};
use roce_trust::signals;
use roce_wire::Qpn;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// The faults of an open device.
#[derive(Default)]
pub(super) struct Injecting {
    /// All of them, with their seed, if the options have any.
    faults: Option<Faults>,
    injections: Option<Arc<Injections>>,
    timed: Option<TimedFaults>,
    /// The thread that carries out what is due at a time, and the channel whose end ends it.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Injected faults of calls, completions, requests and the link.
struct Injections {
    judge: Arc<Judge>,
    context: DeviceFaults,
    link: Link,
}

impl Injecting {
    /// The faults of a device that is being opened, and the layers that its port needs for them.
    ///
    /// # Errors
    /// If the environment's faults are malformed, or the system has no random seed.
    pub(super) fn begin(
        options: &OpenOptions,
        nic: &mut Nic,
        mut layers: Layers,
    ) -> Result<(Self, Layers), OpenError> {
        let mut new = Self::default();
        let Some(network) = options.network_faults()? else {
            return Ok((new, layers));
        };
        if !network.is_faultless() {
            layers.faults = Some(FaultLayer::new(network, network.seed.unwrap_or_default()));
        }
        let mut faults = Faults::from(network);
        if let Some(judge) = options.judge()? {
            let injections = judge.faults().injections().iter().cloned();
            faults = injections.fold(faults, Faults::inject);
            let link = Link::default();
            new.timed = TimedFaults::new(&judge);
            layers.gate = new.timed.as_ref().map(|_| LinkGate::new(link.clone()));
            new.injections = Some(Arc::new(Injections {
                context: DeviceFaults::begin(Arc::clone(&judge), nic),
                judge,
                link,
            }));
        }
        new.faults = Some(faults);
        Ok((new, layers))
    }

    /// The faults that the device asks for.
    pub(super) fn injector(&self) -> Option<Arc<dyn Injector>> {
        let injections = self.injections.clone()?;
        Some(injections)
    }

    /// Injects the faults that are due, and starts a thread for later ones, if there are any.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start(&mut self, shared: &Arc<DeviceState>) -> Result<(), OpenError> {
        let (Some(mut timed), Some(injections)) = (self.timed.take(), &self.injections) else {
            return Ok(());
        };
        let opened = Instant::now();
        run_due(&mut timed, opened, &mut shared.lock(), &injections.link);
        let (sender, closed) = channel();
        let (shared, link) = (Arc::downgrade(shared), injections.link.clone());
        let thread = Builder::new().name("roce-faults".to_owned());
        let run = move || run(&mut timed, opened, &shared, &link, &closed);
        let thread = signals::spawn(thread, run)
            .map_err(OpenError::system("starting the thread of timed faults"))?;
        self.thread = Some((sender, thread));
        Ok(())
    }
}

impl Context {
    /// The faults that the device injects, if any, with their seed.
    pub fn faults(&self) -> Option<Faults> {
        self.inner.injecting.faults.clone()
    }
}

impl Injector for Injections {
    fn on_new_qp(&self, qpn: Qpn) {
        self.context.note_new_qp(qpn);
    }

    fn strikes_region(&self) -> bool {
        self.context.strikes_region()
    }

    fn is_cut_off(&self) -> bool {
        self.link.is_down()
    }

    fn request_judge(&self) -> Option<Box<dyn RequestJudge>> {
        let judge = ConnectionJudge::new(&self.judge)?;
        Some(Box::new(judge))
    }
}

impl RequestJudge for ConnectionJudge {
    fn decide(&mut self, from: IpAddr, mad: &[u8]) -> Option<RequestFate> {
        Some(match ConnectionJudge::decide(self, from, mad)? {
            RequestFault::Reject(reason) => RequestFate::Reject(reason),
            RequestFault::Ignored => RequestFate::Ignored,
        })
    }
}

impl Drop for Injecting {
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
