//! A target that listens.

use super::protocol::{Controllers, Offer, Shape};
use super::shared::Shared;
use super::storage::Storage;
use super::{Snapshot, Subsystem, TargetOptions, handshakes};
use crate::nic::Nic;
use crate::{Address, Error};
use roce_verbs::Device;
use roce_verbs::cm::Listener;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The bounds of the entries of a queue. An admin queue has 32.
const ENTRIES: std::ops::RangeInclusive<u16> = 32..=1024;
/// The longest transfer, as a power of two of pages of 4096 bytes: 8 MiB.
const MAX_TRANSFER_SHIFT: u8 = 11;
/// The most bytes of data in a capsule.
const MAX_IN_CAPSULE: u32 = 64 << 10;

/// A target that listens at an address, until it is dropped. Hosts then see their connections end.
#[derive(Debug)]
pub struct Target {
    shared: Arc<Shared>,
    address: Address,
    acceptor: Option<JoinHandle<()>>,
}

impl Target {
    /// Listens at `address`, which is one of an RDMA device; if its port is 0, the system chooses
    /// one. The discovery service, which lists the subsystem, listens there as well.
    ///
    /// # Errors
    /// If an option is out of bounds, a namespace cannot be opened, or the target cannot listen.
    pub fn listen(
        address: SocketAddr,
        subsystem: Subsystem,
        options: TargetOptions,
    ) -> Result<Self, Error> {
        check(&options)?;
        let nic = Nic::new(Device::with_address(address.ip())?.open()?);
        let backings = subsystem.namespaces.iter();
        let namespaces = backings
            .map(|backing| Storage::open(backing, &nic.pd))
            .collect::<Result<Vec<_>, _>>()?;
        let listener = Listener::bind(&nic.context, address)
            .map_err(|error| Error::Request(format!("cannot listen at {address}: {error}")))?;
        let at = SocketAddr::new(address.ip(), listener.port());
        let controllers = Controllers::new(offer(&subsystem, &namespaces, at, &options));
        let shared = Arc::new(Shared::new(nic, controllers, namespaces, options));
        let there = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("nvme-target".to_owned())
            .spawn(move || handshakes::run(&listener, &there))?;
        Ok(Self {
            shared,
            address: Address {
                at,
                subsystem: Some(subsystem.name),
            },
            acceptor: Some(acceptor),
        })
    }

    /// Where hosts reach the subsystem.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The state and the counts of the target.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Why connections have failed since the last call: the newest 64.
    pub fn take_failures(&self) -> Vec<String> {
        self.shared.take_failures()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(acceptor) = self.acceptor.take() {
            // The thread does not panic; if it did, there is nothing left to do here.
            let _ = acceptor.join();
        }
    }
}

/// Whether the options can be used.
fn check(options: &TargetOptions) -> Result<(), Error> {
    let limits = &options.limits;
    let wrong = |what: String| Err(Error::Request(what));
    if limits.queues == 0 {
        return wrong("a controller needs at least one I/O queue".to_owned());
    }
    if !ENTRIES.contains(&limits.entries) {
        let (entries, least, most) = (limits.entries, ENTRIES.start(), ENTRIES.end());
        return wrong(format!(
            "a queue cannot have {entries} entries: {least} to {most}"
        ));
    }
    if !(1..=MAX_TRANSFER_SHIFT).contains(&limits.max_transfer_shift) {
        let shift = limits.max_transfer_shift;
        return wrong(format!(
            "transfers cannot be limited to 4096 << {shift} bytes: 1 to {MAX_TRANSFER_SHIFT} is right"
        ));
    }
    if !limits.in_capsule_len.is_multiple_of(16) || limits.in_capsule_len > MAX_IN_CAPSULE {
        let len = limits.in_capsule_len;
        return wrong(format!(
            "a capsule cannot have {len} bytes of data: at most {MAX_IN_CAPSULE}, a multiple of 16"
        ));
    }
    if (options.queue_memory as u64) < limits.max_transfer() {
        let (memory, most) = (options.queue_memory, limits.max_transfer());
        return wrong(format!(
            "a queue's memory of {memory} bytes cannot hold a transfer of {most} bytes"
        ));
    }
    Ok(())
}

fn offer(
    subsystem: &Subsystem,
    namespaces: &[Storage],
    address: SocketAddr,
    options: &TargetOptions,
) -> Offer {
    let each = namespaces.iter().zip(&subsystem.namespaces).zip(1..);
    let shapes = each.map(|((storage, backing), number)| Shape {
        blocks: storage.blocks(),
        guid: subsystem.guid(number),
        read_only: backing.read_only,
    });
    Offer {
        subsystem: subsystem.name.clone(),
        serial: subsystem.serial.clone(),
        namespaces: shapes.collect(),
        volatile_cache: namespaces.iter().any(Storage::is_volatile),
        address,
        limits: options.limits,
    }
}
