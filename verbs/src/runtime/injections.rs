//! The fault injection of an open device.

use crate::faults::{ContextFaults, Injection, Judge, TimedFaults};
use roce_port::unplugged::Unplugged;
use std::hint::cold_path;
use std::sync::Arc;

pub(crate) struct Injections {
    pub(super) judge: Arc<Judge>,
    pub(super) context: ContextFaults,
    pub(super) timed: Option<TimedFaults>,
    /// Takes the packets while the link is down.
    pub(super) unplugged: Unplugged,
    pub(super) is_link_down: bool,
}

impl Injections {
    pub(crate) fn list(&self) -> impl Iterator<Item = &Injection> {
        self.judge.faults().injections().iter()
    }

    /// The counter of packets that were dropped because the link was down.
    pub(super) fn counter(&self) -> (&'static str, u64) {
        self.unplugged.counter()
    }
}

/// The replacement for the port, while an injection has taken the link down.
pub(super) fn unplugged(injections: &mut Option<Box<Injections>>) -> Option<&mut Unplugged> {
    let injections = injections.as_mut()?;
    cold_path();
    injections.is_link_down.then_some(&mut injections.unplugged)
}
