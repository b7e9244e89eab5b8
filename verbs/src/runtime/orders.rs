//! The failures to order of an open device.

use crate::faults::{ContextFaults, Judge, Order, TimedFaults};
use roce_port::unplugged::Unplugged;
use std::hint::cold_path;
use std::sync::Arc;

/// The orders of an open device.
pub(crate) struct Orders {
    pub(super) judge: Arc<Judge>,
    pub(super) context: ContextFaults,
    pub(super) timed: Option<TimedFaults>,
    /// Takes the packets while the link is down.
    pub(super) unplugged: Unplugged,
    pub(super) is_link_down: bool,
}

impl Orders {
    /// The orders themselves.
    pub(crate) fn list(&self) -> impl Iterator<Item = &Order> {
        self.judge.faults().orders().iter()
    }

    /// The counter of packets that were dropped because the link was down.
    pub(super) fn counter(&self) -> (&'static str, u64) {
        self.unplugged.counter()
    }
}

/// The replacement for the port, while an order has taken the link down.
pub(super) fn unplugged(orders: &mut Option<Box<Orders>>) -> Option<&mut Unplugged> {
    let orders = orders.as_mut()?;
    cold_path();
    orders.is_link_down.then_some(&mut orders.unplugged)
}
