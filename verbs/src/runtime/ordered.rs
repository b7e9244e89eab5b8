//! Carries out failures to order.

use super::Engine;
use super::orders::Orders;
use crate::faults::{ContextFaults, Judge, RequestJudge, TimedAction, TimedFaults};
use roce_port::unplugged::Unplugged;
use roce_stack::{Event, Instant};
use roce_wire::Qpn;
use std::hint::cold_path;
use std::sync::Arc;

impl Engine {
    /// Sets the orders of a device that is being opened.
    pub(crate) fn order(&mut self, judge: Option<Arc<Judge>>) {
        self.orders = judge.map(|judge| {
            Box::new(Orders {
                context: ContextFaults::begin(Arc::clone(&judge), &mut self.nic),
                timed: TimedFaults::new(&judge),
                unplugged: Unplugged::default(),
                is_link_down: false,
                judge,
            })
        });
    }

    /// The clock of the device runs.
    pub(crate) fn begin_timed_orders(&mut self, now: Instant) {
        if let Some(timed) = self.timed_orders() {
            timed.open(now);
        }
    }

    /// The judge of connection requests, if orders are about them.
    pub(crate) fn request_judge(&self) -> Option<RequestJudge> {
        RequestJudge::new(&self.orders.as_ref()?.judge)
    }

    /// A QP has been created.
    pub(crate) fn note_new_qp(&self, qpn: Qpn) {
        if let Some(orders) = &self.orders {
            cold_path();
            orders.context.note_new_qp(qpn);
        }
    }

    /// A region has been registered.
    pub(crate) fn note_new_region(&mut self, key: u32) {
        if let Some(orders) = &self.orders
            && orders.context.takes_region()
        {
            cold_path();
            self.nic.lose_memory(key);
        }
    }

    /// Whether an order has taken the link down.
    pub(crate) fn is_cut_off(&self) -> bool {
        let orders = self.orders.as_ref();
        orders.is_some_and(|orders| orders.is_link_down)
    }

    /// When the next timed order is due.
    pub(super) fn next_order(&self) -> Option<Instant> {
        self.orders.as_ref()?.timed.as_ref()?.next()
    }

    /// Carries out the timed orders that are due.
    pub(super) fn carry_out_orders(&mut self, now: Instant) {
        while let Some(action) = self.timed_orders().and_then(|timed| timed.take_due(now)) {
            match action {
                TimedAction::PortDown => self.set_link(false),
                TimedAction::PortUp => self.set_link(true),
                TimedAction::GidChange => self.events.push(Event::GidChange),
                TimedAction::DeviceFatal => {
                    self.stop_because("ROCE_FAULTS ordered it to stop");
                }
            }
        }
    }

    fn timed_orders(&mut self) -> Option<&mut TimedFaults> {
        self.orders.as_mut()?.timed.as_mut()
    }

    fn set_link(&mut self, is_up: bool) {
        if let Some(orders) = &mut self.orders {
            orders.is_link_down = !is_up;
        }
        self.events.push(match is_up {
            true => Event::PortActive,
            false => Event::PortError,
        });
    }
}
