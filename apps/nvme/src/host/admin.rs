//! The admin queue: what a host asks of a controller before it reads and writes.

use super::queue::{Plan, Queue};
use super::{HostOptions, IoBuffer};
use crate::Error;
use crate::nic::Nic;
use crate::wire::admin::{self, Identify};
use crate::wire::fabrics::{self, ANY_CONTROLLER, ConnectData};
use crate::wire::identify::{self, Controller, IDENTIFY_LEN, Namespace};
use crate::wire::{Capabilities, Configuration, ControllerStatus, Nqn, Property};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Entries of an admin queue, which every controller has (Base, 3.3.2.2).
const ENTRIES: u16 = 32;
/// How long the host waits between two looks at the controller's status.
const PAUSE: Duration = Duration::from_millis(10);
/// The shortest patience with a controller that says that it needs none.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// A namespace that a host can read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Its number.
    pub number: u32,
    /// Its size in blocks.
    pub blocks: u64,
    /// The length of a block in bytes.
    pub block_len: u32,
    /// An identifier that no other namespace has; zeros: none.
    pub guid: [u8; 16],
}

impl NamespaceInfo {
    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_len))
    }

    /// Whether it has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}

/// The admin queue of a controller.
#[derive(Debug)]
pub(super) struct AdminQueue {
    queue: Queue,
    memory: IoBuffer,
    pub(super) controller: u16,
    pub(super) capabilities: Capabilities,
}

impl AdminQueue {
    /// Connects to a controller of `subsystem` at `at`, and enables it.
    pub(super) fn connect(
        at: SocketAddr,
        subsystem: &Nqn,
        options: &HostOptions,
    ) -> Result<Self, Error> {
        let plan = Plan {
            number: 0,
            len: ENTRIES,
            controller: 0,
        };
        let (queue, nic, controller) = connect_queue(at, subsystem, plan, options)?;
        let memory = IoBuffer::new(&nic.pd, 0, IDENTIFY_LEN)?;
        let mut admin = Self {
            queue,
            memory,
            controller,
            capabilities: Capabilities(0),
        };
        admin.capabilities = Capabilities(admin.get(Property::Capabilities)?);
        admin.enable()?;
        Ok(admin)
    }

    /// Enables the controller, and waits until it is ready.
    fn enable(&mut self) -> Result<(), Error> {
        self.set(Property::Configuration, Configuration::ENABLED.0)?;
        self.wait_until("become ready", |status| status.is_ready())
    }

    /// Asks for an orderly shutdown, and waits until it is complete.
    pub(super) fn shut_down(&mut self) -> Result<(), Error> {
        self.set(Property::Configuration, Configuration::SHUTDOWN.0)?;
        self.wait_until("shut down", |status| status.is_shut_down())
    }

    fn wait_until(
        &mut self,
        what: &'static str,
        wanted: impl Fn(ControllerStatus) -> bool,
    ) -> Result<(), Error> {
        let patience = Duration::from_millis(self.capabilities.timeout_ms().into());
        let patience = patience.max(LEAST_PATIENCE);
        let end = Instant::now() + patience;
        loop {
            let status = ControllerStatus(self.get(Property::Status)? as u32);
            if wanted(status) {
                return Ok(());
            }
            if status.is_fatal() {
                let what = "it reports a fatal error (CSTS.CFS)".to_owned();
                return Err(Error::Incompatible(what));
            }
            if Instant::now() >= end {
                return Err(Error::NotReady {
                    what,
                    after: patience,
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn get(&mut self, property: Property) -> Result<u64, Error> {
        let value = self
            .queue
            .call("property get", fabrics::property_get(property))?;
        Ok(match property.is_wide() {
            true => value,
            false => value & u64::from(u32::MAX),
        })
    }

    fn set(&mut self, property: Property, value: u32) -> Result<(), Error> {
        let command = fabrics::property_set(property, value.into());
        self.queue.call("property set", command).map(drop)
    }

    pub(super) fn identify_controller(&mut self) -> Result<Controller, Error> {
        self.identify(Identify::Controller, 0)
            .map(|bytes| Controller::parse(&bytes))
    }

    /// The active namespaces that this host can use. Those with metadata or odd block lengths are
    /// left out.
    pub(super) fn namespaces(&mut self) -> Result<Vec<NamespaceInfo>, Error> {
        let mut found = Vec::new();
        let mut behind = 0;
        loop {
            let list = identify::parse_list(&self.identify(Identify::ActiveNamespaces, behind)?);
            for &number in &list {
                // The list ascends, so this ends whatever the controller sends.
                if number <= behind {
                    let what = format!("its list of namespaces has {number} behind {behind}");
                    return Err(Error::Incompatible(what));
                }
                behind = number;
                let bytes = self.identify(Identify::Namespace, number)?;
                let namespace = Namespace::parse(&bytes);
                if let Some(block_len) = namespace.block_len()
                    && namespace.metadata_len == 0
                {
                    found.push(NamespaceInfo {
                        number,
                        blocks: namespace.blocks,
                        block_len,
                        guid: namespace.guid,
                    });
                }
            }
            if list.len() < IDENTIFY_LEN / 4 || found.len() >= MAX_NAMESPACES {
                return Ok(found);
            }
        }
    }

    fn identify(&mut self, structure: Identify, number: u32) -> Result<[u8; IDENTIFY_LEN], Error> {
        let sgl = self.memory.keyed(0..IDENTIFY_LEN);
        let command = admin::identify(structure, number).with_sgl(&sgl);
        self.queue.call("identify", command)?;
        let mut bytes = [0; IDENTIFY_LEN];
        self.memory.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Asks for I/O queues, and returns how many the controller grants.
    pub(super) fn request_queues(&mut self, wanted: u16) -> Result<u16, Error> {
        let minus_1 = u32::from(wanted.max(1) - 1);
        let command = admin::set_feature(admin::NUMBER_OF_QUEUES, minus_1 | minus_1 << 16);
        let granted = self
            .queue
            .call("set features (number of queues)", command)?;
        let (submission, completion) = (granted as u16, (granted >> 16) as u16);
        Ok(submission.min(completion).saturating_add(1).min(wanted))
    }

    /// Reads `out.len()` bytes, a multiple of 4 and at most 4096, of the discovery log page.
    pub(super) fn discovery_log(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let sgl = self.memory.keyed(0..out.len());
        let command = admin::log_page(admin::DISCOVERY_LOG, offset, out.len() as u32);
        self.queue
            .call("get log page (discovery)", command.with_sgl(&sgl))?;
        self.memory.read(0, out)?;
        Ok(())
    }

    pub(super) fn keep_alive(&mut self) -> Result<(), Error> {
        self.queue.call("keep alive", admin::keep_alive()).map(drop)
    }

    pub(super) fn disconnect(self, patience: Duration) -> bool {
        self.queue.disconnect(patience)
    }
}

/// The most namespaces that a host looks at.
const MAX_NAMESPACES: usize = 65_536;

/// Connects a queue, with a device of its own: devices have separate locks. Returns the number of
/// its controller, too.
pub(super) fn connect_queue(
    at: SocketAddr,
    subsystem: &Nqn,
    plan: Plan,
    options: &HostOptions,
) -> Result<(Queue, Nic, u16), Error> {
    let nic = Nic::towards(at.ip())?;
    let mut queue = Queue::connect(&nic, at, plan, options.timeout)?;
    let memory = IoBuffer::new(&nic.pd, plan.number, fabrics::CONNECT_DATA_LEN)?;
    let data = ConnectData {
        host_id: options.id,
        controller: match plan.number {
            0 => ANY_CONTROLLER,
            _ => plan.controller,
        },
        subsystem: subsystem.clone(),
        host: options.name.clone(),
    };
    let controller = queue.establish(&data, &memory, options)?;
    Ok((queue, nic, controller))
}
