//! A host that is connected to a controller.

use super::admin::{AdminQueue, NamespaceInfo, connect_queue};
use super::durability::{Extent, Journal};
use super::keep_alive::KeepAlive;
use super::queue::Plan;
use super::{HostOptions, IoQueue};
use crate::wire::identify::Controller;
use crate::{Address, Error};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// The longest time that a shutdown waits for the target to agree to a disconnection.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes that a command of this host transfers, if the controller has no limit.
const MAX_TRANSFER: u64 = 8 << 20;
/// The bounds of the entries of an I/O queue.
const DEPTH: std::ops::RangeInclusive<u16> = 2..=1024;

/// A host that is connected to a controller. Dropping it disconnects without an orderly shutdown.
#[derive(Debug)]
pub struct Host {
    // Dropped first, as it uses the admin queue.
    keep_alive: Option<KeepAlive>,
    queues: Vec<IoQueue>,
    admin: Arc<Mutex<AdminQueue>>,
    controller: Controller,
    namespaces: Vec<NamespaceInfo>,
    journal: Arc<Mutex<Journal>>,
}

impl Host {
    /// Connects to a controller of the subsystem at `address`: its admin queue, and as many I/O
    /// queues of `options` as it grants.
    ///
    /// # Errors
    /// If the address names no subsystem, the target does not answer or refuses, or the controller
    /// lacks what NVMe over RDMA needs.
    pub fn connect(address: &Address, options: &HostOptions) -> Result<Self, Error> {
        let subsystem = address.subsystem.as_ref().ok_or_else(|| {
            Error::Request(format!(
                "{address} names no subsystem: `nvme-rdma discover {address}` lists those that are there"
            ))
        })?;
        let mut admin = AdminQueue::connect(address.at, subsystem, options)?;
        let controller = admin.identify_controller()?;
        check(&controller)?;
        let namespaces = admin.namespaces()?;
        let granted = admin.request_queues(options.queues)?;
        let journal = Arc::new(Mutex::new(Journal::new(controller.volatile_cache)));
        let plan = Plan {
            number: 0,
            len: depth(options, &controller, &admin),
            controller: admin.controller,
        };
        let mut queues = Vec::new();
        for number in 1..=granted {
            let plan = Plan { number, ..plan };
            let limits = limits(&controller);
            let (queue, nic, _) = connect_queue(address.at, subsystem, plan, options)?;
            queues.push(IoQueue::new(queue, nic.pd, Arc::clone(&journal), limits));
        }
        let admin = Arc::new(Mutex::new(admin));
        let keep_alive = match options.keep_alive.is_zero() {
            true => None,
            false => Some(KeepAlive::start(Arc::clone(&admin), options.keep_alive)?),
        };
        Ok(Self {
            keep_alive,
            queues,
            admin,
            controller,
            namespaces,
            journal,
        })
    }

    /// The controller's own description.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The namespaces that this host can read and write.
    pub fn namespaces(&self) -> &[NamespaceInfo] {
        &self.namespaces
    }

    /// The I/O queues. Threads may use different ones at the same time.
    pub fn queues(&mut self) -> &mut [IoQueue] {
        &mut self.queues
    }

    /// The bytes of writes that are not known to be durable: those of writes that the controller has
    /// not answered, and, if it has a volatile cache, those that no flush has followed.
    pub fn not_durable(&self) -> Vec<Extent> {
        self.journal.lock().not_durable()
    }

    /// Whether the controller still answers keep-alive commands.
    ///
    /// # Errors
    /// Why not, once.
    pub fn check_alive(&self) -> Result<(), Error> {
        let failure = self.keep_alive.as_ref().and_then(KeepAlive::take_failure);
        failure.map_or(Ok(()), Err)
    }

    /// Shuts the controller down and disconnects.
    ///
    /// # Errors
    /// If the controller does not answer. The connections are gone in any case.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.keep_alive = None;
        for queue in self.queues.drain(..) {
            queue.disconnect(PATIENCE);
        }
        let result = self.admin.lock().shut_down();
        if let Ok(admin) = Arc::try_unwrap(self.admin) {
            admin.into_inner().disconnect(PATIENCE);
        }
        result
    }
}

/// Whether the controller has what this host needs.
fn check(controller: &Controller) -> Result<(), Error> {
    let refuse = |what: &str| Err(Error::Incompatible(what.to_owned()));
    match controller {
        c if !c.keyed_sgl => refuse("it has no keyed SGLs (SGLS, bit 2), which RDMA needs"),
        c if c.command_capsule_units < 4 => refuse("its command capsules (IOCCSZ) are too short"),
        _ => Ok(()),
    }
}

/// The entries of each I/O queue.
fn depth(options: &HostOptions, controller: &Controller, admin: &AdminQueue) -> u16 {
    let most = admin
        .capabilities
        .max_queue_entries()
        .min(u32::from(*DEPTH.end())) as u16;
    let most = match controller.max_commands {
        0 => most,
        commands => most.min(commands),
    };
    options.depth.min(most).max(*DEPTH.start())
}

/// The most bytes in a capsule, and in a transfer.
fn limits(controller: &Controller) -> (usize, u64) {
    let most = controller.max_transfer().unwrap_or(MAX_TRANSFER);
    (controller.in_capsule_len(), most.min(MAX_TRANSFER))
}
