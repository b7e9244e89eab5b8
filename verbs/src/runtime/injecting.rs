//! Carries out fault injection.

use super::Engine;
use super::injections::Injections;
use crate::faults::{ContextFaults, Judge, RequestJudge, TimedAction, TimedFaults};
use roce_port::unplugged::Unplugged;
use roce_stack::{Event, Instant};
use roce_wire::Qpn;
use std::hint::cold_path;
use std::sync::Arc;

impl Engine {
    /// Sets the injections of a device that is being opened.
    pub(crate) fn inject(&mut self, judge: Option<Arc<Judge>>) {
        self.injections = judge.map(|judge| {
            Box::new(Injections {
                context: ContextFaults::begin(Arc::clone(&judge), &mut self.nic),
                timed: TimedFaults::new(&judge),
                unplugged: Unplugged::default(),
                is_link_down: false,
                judge,
            })
        });
    }

    /// The clock of the device runs.
    pub(crate) fn begin_timed_injections(&mut self, now: Instant) {
        if let Some(timed) = self.timed_injections() {
            timed.open(now);
        }
    }

    /// The judge of connection requests, if injections are about them.
    pub(crate) fn request_judge(&self) -> Option<RequestJudge> {
        RequestJudge::new(&self.injections.as_ref()?.judge)
    }

    pub(crate) fn note_new_qp(&self, qpn: Qpn) {
        if let Some(injections) = &self.injections {
            cold_path();
            injections.context.note_new_qp(qpn);
        }
    }

    pub(crate) fn note_new_region(&mut self, key: u32) {
        if let Some(injections) = &self.injections
            && injections.context.strikes_region()
        {
            cold_path();
            self.nic.lose_memory(key);
        }
    }

    /// Whether an injection has taken the link down.
    pub(crate) fn is_cut_off(&self) -> bool {
        let injections = self.injections.as_ref();
        injections.is_some_and(|injections| injections.is_link_down)
    }

    /// When the next timed injection is due.
    pub(super) fn next_injection(&self) -> Option<Instant> {
        self.injections.as_ref()?.timed.as_ref()?.next()
    }

    /// Carries out the timed injections that are due.
    pub(super) fn inject_due_faults(&mut self, now: Instant) {
        while let Some(action) = self
            .timed_injections()
            .and_then(|timed| timed.take_due(now))
        {
            match action {
                TimedAction::PortDown => self.set_link(false),
                TimedAction::PortUp => self.set_link(true),
                TimedAction::GidChange => self.events.push(Event::GidChange),
                TimedAction::DeviceFatal => {
                    self.stop_because("ROCE_FAULTS stopped it");
                }
            }
        }
    }

    fn timed_injections(&mut self) -> Option<&mut TimedFaults> {
        self.injections.as_mut()?.timed.as_mut()
    }

    fn set_link(&mut self, is_up: bool) {
        if let Some(injections) = &mut self.injections {
            injections.is_link_down = !is_up;
        }
        self.events.push(match is_up {
            true => Event::PortActive,
            false => Event::PortError,
        });
    }
}
