//! The engine: the NIC and its port behind one lock, and the methods that drive them.

mod sending;
#[cfg(test)]
mod tests;

use super::moderation::Moderation;
use super::pacing::Pacing;
use super::{EventQueue, Observed, Observer, Persister, Tally};
use crate::datapath::DevicePort;
use roce_port::{PortError, RxSink};
use roce_stack::{Counters, CqId, Event, Instant, Nic, Persisted, QpAttributes, QpState, RxMeta};
use std::collections::HashMap;
use std::hint::cold_path;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// The maximum number of packets that one turn takes from the port.
const RECEIVE_BUDGET: usize = 64;

/// Turns of [`Engine::catch_up`]: enough for a full socket buffer, and a bound if packets arrive
/// faster than they are processed.
const CATCH_UP_TURNS: usize = 64;

/// The state that the lock of an open device protects.
pub(crate) struct Engine {
    pub(crate) nic: Nic,
    /// The port, inside the layers that the device was opened with.
    pub(crate) port: DevicePort,
    pub(crate) channels: HashMap<CqId, Weak<EventQueue<CqId>>>,
    /// Delays events until more completions arrive.
    pub(crate) moderation: Moderation,
    /// Decides which posts wait for those that follow.
    pub(super) pacing: Pacing,
    pub(crate) events: Arc<EventQueue<Event>>,
    /// Observes the device, if anybody does.
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Counts the work of the device, for a summary.
    pub(crate) tally: Option<Box<dyn Tally>>,
    /// The receiver of management datagrams, once QP1 is open.
    pub(crate) mad_listener: Option<Arc<dyn MadListener>>,
    /// Makes memory durable.
    pub(crate) persister: Option<Arc<Persister>>,
    /// The port's error, if it failed for good.
    pub(crate) failure: Option<PortError>,
    /// Whether events have been delivered since the background thread last looked: the threads that wait
    /// for them have something to do.
    pub(super) has_raised: bool,
    /// The number of the wait whose thread drives the NIC now; 0 if no waiting thread does.
    pub(super) driving_wait: u64,
    /// Whether the port must not spare a system call that would find packets.
    asks_kernel: bool,
    /// Why the device has stopped for good, if it has ([`Engine::stop`]).
    why_stopped: Option<&'static str>,
    latest: Instant,
}

/// Is notified of the management datagrams that reach QP1.
pub(crate) trait MadListener: Send + Sync {
    /// Called when management datagrams have arrived. The engine is locked, so this must not block.
    fn on_mads_arrived(&self);
}

/// Hands packets from the port to the NIC.
struct ToNic<'a> {
    nic: &'a mut Nic,
    now: Instant,
}

impl RxSink for ToNic<'_> {
    fn packet(&mut self, meta: &RxMeta, transport: &[u8]) {
        self.nic.receive(self.now, meta, transport);
    }

    fn counters(&self) -> Option<&Counters> {
        Some(self.nic.counters())
    }
}

impl Engine {
    pub(crate) fn new(nic: Nic, port: DevicePort, events: Arc<EventQueue<Event>>) -> Self {
        Self {
            nic,
            port,
            channels: HashMap::new(),
            moderation: Moderation::default(),
            pacing: Pacing::default(),
            events,
            observer: None,
            tally: None,
            mad_listener: None,
            persister: None,
            failure: None,
            has_raised: false,
            driving_wait: 0,
            asks_kernel: false,
            why_stopped: None,
            latest: Instant::ZERO,
        }
    }

    /// Stops the device for good, after a panic in the middle of a change: a bug of this library.
    /// All QPs go to the error state, so that their requests complete as flushed, and
    /// [`Event::DeviceFatal`] is raised. No packet is sent or received from now on.
    pub(crate) fn stop(&mut self) {
        self.stop_because("it has stopped after a panic, which is a bug of roce");
    }

    /// Stops the device for good, for this reason.
    pub(crate) fn stop_because(&mut self, why: &'static str) {
        if self.has_stopped() {
            return;
        }
        self.why_stopped = Some(why);
        let now = self.latest;
        let to_error = QpAttributes {
            state: Some(QpState::Err),
            ..QpAttributes::default()
        };
        for qpn in self.nic.qpns() {
            // If the panic left this QP in a state that causes another one, its requests do not
            // complete. The other QPs' do.
            let _ = catch_unwind(AssertUnwindSafe(|| self.nic.modify_qp(now, qpn, &to_error)));
        }
        // It may have caused the panic, and must not keep the events from their receivers.
        self.mad_listener = None;
        let _ = catch_unwind(AssertUnwindSafe(|| self.deliver_events()));
        self.events.push(Event::DeviceFatal);
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.why_stopped.is_some()
    }

    /// Why the device does not work any more, if it does not.
    pub(crate) fn failure_text(&self) -> Option<String> {
        if let Some(why) = self.why_stopped {
            return Some(why.to_owned());
        }
        self.failure.as_ref().map(PortError::to_string)
    }

    /// The time for calls of the NIC, which never goes back: `now`, or the time of an earlier call
    /// if that is later. Threads may get the lock in another order than they read the clock.
    pub(crate) fn nic_time(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Sends the packets that are ready, receives those that have arrived, handles the timeouts
    /// that are due, and delivers events. Acknowledgements of the received packets leave with the
    /// next call, so the application's answer can leave before them. Returns whether there were
    /// packets or timeouts.
    pub(crate) fn progress(&mut self, now: Instant) -> bool {
        let now = self.nic_time(now);
        if self.has_stopped() {
            cold_path();
            self.deliver_events();
            return false;
        }
        let mut busy = self.send(now);
        let mut received = self.receive(now);
        busy |= received > 0;
        if self.is_timeout_due(now) {
            // The answer may be among the packets that still wait, if nobody drove the NIC for some
            // time.
            for _ in 1..CATCH_UP_TURNS {
                if received < RECEIVE_BUDGET {
                    break;
                }
                received = self.receive(now);
            }
            if self.is_timeout_due(now) {
                self.nic.handle_timeouts(now);
            }
            busy = true;
        }
        self.write_tally();
        self.deliver_events();
        busy
    }

    fn is_timeout_due(&self, now: Instant) -> bool {
        self.nic.next_timeout().is_some_and(|at| at <= now)
    }

    /// Receives at most about [`RECEIVE_BUDGET`] packets. Returns their number.
    fn receive(&mut self, now: Instant) -> usize {
        let mut sink = ToNic {
            nic: &mut self.nic,
            now,
        };
        self.port.note_time((!self.asks_kernel).then_some(now));
        let received = self.port.receive(RECEIVE_BUDGET, &mut sink);
        received.unwrap_or_else(|error| {
            cold_path();
            self.failure = Some(error);
            0
        })
    }

    /// Receives the packets that have arrived and sends what is due, in at most [`CATCH_UP_TURNS`]
    /// turns. Called before a QP loses its state, because a hardware adapter would already have
    /// processed those packets.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.asks_kernel = true;
        self.port.note_time(None);
        for _ in 0..CATCH_UP_TURNS {
            if !self.progress(now) {
                break;
            }
        }
        self.asks_kernel = false;
    }

    /// Writes out the counts of this turn, so that they are not lost if the process crashes.
    fn write_tally(&mut self) {
        if let Some(tally) = &mut self.tally {
            cold_path();
            tally.on_turn(self.nic.counters(), self.port.lane_packets());
        }
    }

    /// Whether packets are ready to be sent, or looped-back packets are ready to be received. No
    /// descriptor becomes readable for the latter.
    pub(crate) fn has_work(&self) -> bool {
        !self.has_stopped() && (self.nic.wants_to_send() || self.port.has_looped())
    }

    /// Whether only acknowledgements are ready to be sent. They can be delayed until the
    /// application sends its answer.
    pub(crate) fn has_only_acknowledgements_to_send(&self) -> bool {
        self.nic.wants_only_to_acknowledge() && !self.port.has_looped()
    }

    /// The time of the next timeout, of any kind.
    pub(crate) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        if self.has_stopped() {
            return self.moderation.next_deadline();
        }
        let port = self.port.next_deadline().map(|later| now + later);
        let timeouts = self.nic.next_timeout().into_iter();
        let delayed_events = self.moderation.next_deadline();
        timeouts.chain(port).chain(delayed_events).min()
    }

    /// Lets the port handle changes of routes, neighbours, addresses and the link.
    pub(crate) fn follow_network(&mut self) {
        if let Err(error) = self.port.follow_network() {
            self.failure = Some(error);
        }
    }

    /// Delivers the NIC's events to their receivers.
    #[inline(always)]
    pub(crate) fn deliver_events(&mut self) {
        let waits = self.nic.has_events() || self.nic.has_failures() || self.nic.has_mads();
        if waits || self.nic.has_mismatches() || self.moderation.has_delayed() {
            self.deliver_pending_events();
        }
        if self.nic.has_persists() {
            cold_path();
            self.submit_persists();
        }
    }

    /// Hands what the NIC wants to be durable to the threads that wait for it. Without a thread, this
    /// one waits.
    #[inline(never)]
    fn submit_persists(&mut self) {
        while let Some(persist) = self.nic.poll_persist() {
            let submitted = match &self.persister {
                Some(persister) => persister.submit(persist),
                None => Err(persist),
            };
            if let Err(persist) = submitted {
                self.nic.finish_persist(self.latest, persist.run());
            }
        }
    }

    /// Continues with what waited for durable memory, and sends what is due.
    pub(super) fn finish_persist(&mut self, now: Instant, done: Persisted) {
        let now = self.nic_time(now);
        self.nic.finish_persist(now, done);
        self.send(now);
        self.deliver_events();
    }

    #[inline(never)]
    fn deliver_pending_events(&mut self) {
        self.has_raised = true;
        if self.nic.has_mads()
            && let Some(listener) = &self.mad_listener
        {
            listener.on_mads_arrived();
        }
        let has_failed = self.nic.has_failures();
        if has_failed || self.nic.has_mismatches() {
            self.report_failures();
        }
        if has_failed {
            // The peer learns of it even if the application ends now. It may end because of what the
            // peer does then, so the explanation has been written before.
            self.send(self.latest);
        }
        while let Some(event) = self.nic.poll_event() {
            if let Event::CqNotify(id) = event {
                if !self.moderation.delay(self.latest, id) {
                    self.push_cq_event(id);
                }
                continue;
            }
            self.events.push(event);
        }
        while let Some(id) = self.moderation.take_due(self.latest) {
            self.push_cq_event(id);
        }
    }

    #[cold]
    fn report_failures(&mut self) {
        let failed = iter::from_fn(|| self.nic.poll_failure()).collect();
        let unfit = iter::from_fn(|| self.nic.poll_mismatch()).collect();
        if let Some(observer) = &mut self.observer {
            let observed = Observed {
                now: self.latest,
                nic: &self.nic,
                port: &*self.port,
            };
            observer.on_failures(&observed, failed, unfit);
        }
    }

    fn push_cq_event(&self, id: CqId) {
        if let Some(channel) = self.channels.get(&id).and_then(Weak::upgrade) {
            channel.push_in(self.driving_wait, id);
        }
    }

    /// Withdraws the events of an object that raises no more, because it is destroyed.
    pub(crate) fn withdraw_events(&mut self, is_its: impl Fn(&Event) -> bool) {
        self.deliver_events();
        self.events.withdraw(is_its);
    }

    pub(crate) fn set_channel(&mut self, id: CqId, channel: &Arc<EventQueue<CqId>>) {
        self.channels.insert(id, Arc::downgrade(channel));
    }
}
