//! Faults at a given time after the device was opened.

use crate::strike::report;
use crate::{Injection, Judge, Target, TimedFault, When};
use roce_stack::Duration;

/// The action at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedAction {
    /// The link goes down.
    PortDown,
    /// The link comes up again.
    PortUp,
    /// A GID change event is raised.
    GidChange,
    /// The device fails permanently.
    DeviceFatal,
}

/// The timed injections of one open device.
#[derive(Debug)]
pub struct TimedFaults {
    /// The remaining actions, in descending order of time.
    actions: Vec<(Duration, TimedAction, Option<Injection>)>,
}

impl TimedFaults {
    /// `None` if there are none.
    pub fn new(judge: &Judge) -> Option<Self> {
        let injections = judge.faults().injections().iter();
        let mut actions: Vec<_> = injections.flat_map(plan_actions).collect();
        actions.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        (!actions.is_empty()).then_some(Self { actions })
    }

    /// The time after the device was opened when the next action is due.
    pub fn next(&self) -> Option<Duration> {
        self.actions.last().map(|(at, ..)| *at)
    }

    /// Takes an action that is due, and reports its injection. The device was opened this long ago.
    pub fn take_due(&mut self, elapsed: Duration) -> Option<TimedAction> {
        if self.next()? > elapsed {
            return None;
        }
        let (_, action, injection) = self.actions.pop()?;
        if let Some(injection) = injection {
            report(&injection);
        }
        Some(action)
    }
}

/// The actions of an injection. The first one carries the injection, so that it is reported once.
fn plan_actions(injection: &Injection) -> Vec<(Duration, TimedAction, Option<Injection>)> {
    let (Target::Timed(fault), When::Time { from, to }) = (&injection.what, injection.when) else {
        return Vec::new();
    };
    let first = match fault {
        TimedFault::PortDown => TimedAction::PortDown,
        TimedFault::GidChange => TimedAction::GidChange,
        TimedFault::DeviceFatal => TimedAction::DeviceFatal,
    };
    let mut actions = vec![(from, first, Some(injection.clone()))];
    actions.extend(to.map(|to| (to, TimedAction::PortUp, None)));
    actions
}
