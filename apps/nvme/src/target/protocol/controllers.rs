//! The controllers of a target.

use super::Over;
use super::offer::Offer;
use crate::wire::fabrics::ConnectData;
use crate::wire::{Configuration, ControllerStatus, HostId, Nqn};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The highest number of a controller (Base, 6.3: those from 0xfff0 on are reserved).
const LAST: u16 = 0xffef;

/// A target's offer, and its controllers.
#[derive(Debug)]
pub struct Controllers {
    pub(super) offer: Offer,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number that was given out last.
    last: u16,
    controllers: BTreeMap<u16, Arc<Controller>>,
}

/// A controller: it lives as long as its admin queue.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) id: u16,
    pub(super) is_discovery: bool,
    host: Nqn,
    host_id: HostId,
    state: Mutex<State>,
}

/// A change of a controller.
#[derive(Debug)]
pub(super) struct State {
    pub(super) configuration: Configuration,
    pub(super) status: ControllerStatus,
    /// Zero: the host may be silent for ever.
    pub(super) keep_alive: Duration,
    heard: Instant,
    /// How many I/O queues the host may connect.
    pub(super) granted: u16,
    /// The I/O queues that are connected.
    pub(super) queues: BTreeSet<u16>,
    /// Commands that wait for an event.
    pub(super) async_events: u16,
    pub(super) async_configuration: u32,
    ended: bool,
}

impl Controllers {
    /// No controllers yet.
    pub fn new(offer: Offer) -> Self {
        let table = Mutex::default();
        Self { offer, table }
    }

    /// How many controllers there are, and how many I/O queues they have.
    pub fn count(&self) -> (usize, usize) {
        let table = self.table.lock();
        let queues = table.controllers.values().map(|c| c.state().queues.len());
        (table.controllers.len(), queues.sum())
    }

    /// A new controller for a host; `None` if there are too many.
    pub(super) fn create(
        &self,
        host: &ConnectData,
        is_discovery: bool,
        keep_alive: Duration,
        now: Instant,
    ) -> Option<Arc<Controller>> {
        let mut table = self.table.lock();
        let after = table
            .last
            .checked_add(1)
            .filter(|&n| n <= LAST)
            .unwrap_or(1);
        let id = (after..=LAST)
            .chain(1..after)
            .find(|id| !table.controllers.contains_key(id))?;
        table.last = id;
        let controller = Arc::new(Controller {
            id,
            is_discovery,
            host: host.host.clone(),
            host_id: host.host_id,
            state: Mutex::new(State {
                configuration: Configuration::default(),
                status: ControllerStatus::default(),
                keep_alive,
                heard: now,
                granted: self.offer.limits.queues,
                queues: BTreeSet::new(),
                async_events: 0,
                async_configuration: 0,
                ended: false,
            }),
        });
        table.controllers.insert(id, Arc::clone(&controller));
        Some(controller)
    }

    pub(super) fn find(&self, id: u16) -> Option<Arc<Controller>> {
        self.table.lock().controllers.get(&id).cloned()
    }

    /// Ends a controller: its sessions are over from now on.
    pub(super) fn end(&self, controller: &Controller) {
        controller.state().ended = true;
        self.table.lock().controllers.remove(&controller.id);
    }
}

impl Controller {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn is_of(&self, host: &ConnectData) -> bool {
        self.host == host.host && self.host_id == host.host_id
    }
}

impl State {
    /// The host has sent a command.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether the controller takes commands.
    pub(super) fn is_ready(&self) -> bool {
        self.configuration.is_enabled() && self.status.is_ready()
    }

    /// Whether the controller is over.
    pub(super) fn check(&self, grace: Duration, now: Instant) -> Result<(), Over> {
        if self.ended {
            return Err(Over::NoController);
        }
        let limit = self.keep_alive + grace;
        let silent = now.saturating_duration_since(self.heard);
        match !self.keep_alive.is_zero() && silent > limit {
            true => Err(Over::Silent(limit)),
            false => Ok(()),
        }
    }
}
