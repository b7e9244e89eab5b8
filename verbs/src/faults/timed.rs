//! Faults at a time since the device was opened.

use super::strike::report;
use super::{Judge, Order, TimedFault, What, When};
use roce_stack::{Duration, Instant};

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedAction {
    PortDown,
    PortUp,
    GidChange,
    DeviceFatal,
}

/// The timed orders of one open device.
#[derive(Debug)]
pub(crate) struct TimedFaults {
    /// The actions to come, the next one last.
    actions: Vec<(Duration, TimedAction, Option<Order>)>,
    /// When the device was opened; `None` before it is first driven.
    opened: Option<Instant>,
}

impl TimedFaults {
    /// `None` if there are none.
    pub(crate) fn new(judge: &Judge) -> Option<Self> {
        let orders = judge.faults().orders().iter();
        let mut actions: Vec<_> = orders.flat_map(actions).collect();
        actions.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        (!actions.is_empty()).then_some(Self {
            actions,
            opened: None,
        })
    }

    /// The device is open. The times count from now on.
    pub(crate) fn open(&mut self, now: Instant) {
        self.opened = Some(now);
    }

    /// When the next action is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (after, ..) = self.actions.last()?;
        Some(self.opened? + *after)
    }

    /// Takes an action that is due, and reports its order.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<TimedAction> {
        if self.next()? > now {
            return None;
        }
        let (_, action, order) = self.actions.pop()?;
        if let Some(order) = order {
            report(&order);
        }
        Some(action)
    }
}

/// The actions of an order. The one that begins it reports it.
fn actions(order: &Order) -> Vec<(Duration, TimedAction, Option<Order>)> {
    let (What::Timed(fault), When::Time { from, to }) = (&order.what, order.when) else {
        return Vec::new();
    };
    let begins = match fault {
        TimedFault::PortDown => TimedAction::PortDown,
        TimedFault::GidChange => TimedAction::GidChange,
        TimedFault::DeviceFatal => TimedAction::DeviceFatal,
    };
    let mut actions = vec![(from, begins, Some(order.clone()))];
    actions.extend(to.map(|to| (to, TimedAction::PortUp, None)));
    actions
}
