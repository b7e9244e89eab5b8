//! Paths from an address of the device to another host.

use super::{Context, Inner};
use crate::error::ConnectError;
use crate::gid::{Gid, GidEntry, GidTable};
use parking_lot::MutexGuard;
use roce_port::Port;
use roce_stack::{RoceVersion, TxMeta};
use std::net::IpAddr;

/// Everything about a path that has a usual value.
#[derive(Clone, Copy, Debug)]
pub struct AddressOptions {
    /// DSCP in the upper six bits, ECN in the lower two. The device's settings
    /// ([`PrioritySettings`](crate::settings::PrioritySettings)) may say another DSCP.
    pub traffic_class: u8,
    /// The service level, 0 to 7, from which the device's settings make the DSCP if none is
    /// said here.
    pub service_level: u8,
    /// Time to live, or hop limit; 0 takes the usual one, which is 1 for multicast
    /// groups.
    pub hop_limit: u8,
}

impl Default for AddressOptions {
    fn default() -> Self {
        Self {
            // ECN-capable: switches may mark instead of drop.
            traffic_class: 2,
            service_level: 0,
            hop_limit: 64,
        }
    }
}

impl Inner {
    /// The GID table as of now, and the addresses that it was made from. If the system does not
    /// tell the interface's addresses, it has those that it had.
    fn gids_now(&self) -> (MutexGuard<'_, GidTable>, Vec<IpAddr>) {
        let mut table = self.gids.lock();
        if let Ok(addresses) = self.device.addresses() {
            table.follow(&addresses);
        }
        let addresses = table.addresses();
        (table, addresses)
    }
}

impl Context {
    /// The GID table as of now; it follows the interface's addresses. An entry keeps
    /// its index as long as it is there.
    pub fn gids(&self) -> Vec<GidEntry> {
        self.inner.gids_now().0.entries()
    }

    /// The index of the GID table's entry for one of the device's addresses, by RoCEv2 if there is
    /// one of that.
    ///
    /// # Errors
    /// [`ConnectError::UnknownAddress`] if the device does not have the address; it says which
    /// ones it has.
    pub fn gid_index(&self, address: IpAddr) -> Result<u8, ConnectError> {
        let entries = self.gids();
        let ours = entries.iter().filter(|entry| entry.gid.ip() == address);
        let best = ours.min_by_key(|entry| entry.version != RoceVersion::V2);
        best.map(|entry| entry.index)
            .ok_or_else(|| ConnectError::UnknownAddress {
                address,
                known: entries.iter().map(|entry| entry.gid.ip()).collect(),
            })
    }

    /// The GID at an index and what carries its packets, and the addresses that the
    /// interface has.
    pub(crate) fn gid_at(
        &self,
        index: u8,
    ) -> Result<(Gid, RoceVersion, Vec<IpAddr>), ConnectError> {
        let (table, addresses) = self.inner.gids_now();
        match table.get(index) {
            Some((gid, version)) => Ok((gid, version, addresses)),
            None => Err(ConnectError::UnknownGid {
                index,
                known: table.entries().iter().map(|entry| entry.index).collect(),
            }),
        }
    }

    /// Makes the addresses of all GIDs usable: a UD QP that is not bound to one of them
    /// takes what is sent to any. Returns how many are.
    ///
    /// # Errors
    /// If none can be used, the reason of the last.
    pub fn activate_all(&self) -> Result<usize, ConnectError> {
        // The datapath starts even without an address: a listener at all addresses also listens at
        // those that come later.
        drop(self.inner.shared.lock_started()?);
        let mut last = None;
        let mut usable = 0;
        for entry in self.gids() {
            match self.activate(entry.index) {
                Ok(_) => usable += 1,
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if usable == 0 => Err(error),
            _ => Ok(usable),
        }
    }

    /// Makes the address behind a GID index usable and returns it, with what carries its
    /// packets.
    pub(crate) fn activate(&self, index: u8) -> Result<(IpAddr, RoceVersion), ConnectError> {
        let (gid, version, addresses) = self.gid_at(index)?;
        let address = gid.ip();
        let mut engine = self.inner.shared.lock_started()?;
        if !engine.port.carries(version) {
            return Err(ConnectError::NotCarried { index, version });
        }
        engine.port.set_addresses(addresses);
        engine.port.activate(address)?;
        drop(engine);
        // The background thread has one more socket to watch.
        self.inner.shared.wake_driver();
        Ok((address, version))
    }

    /// The path from the GID at an index to a remote one, made usable: the index decides
    /// the version of RoCE. Time to live or hop limit 0 takes the usual one. The traffic
    /// class is what the device's [settings](crate::settings::PrioritySettings::traffic_class) make of the
    /// given one, with service level 0.
    ///
    /// # Errors
    /// If the table has no such entry, its address can't be used, this datapath does not
    /// carry its version of RoCE, or the other GID can't be reached by it.
    pub fn path(
        &self,
        index: u8,
        remote: Gid,
        traffic_class: u8,
        hop_limit: u8,
    ) -> Result<TxMeta, ConnectError> {
        let options = AddressOptions {
            traffic_class,
            hop_limit,
            ..AddressOptions::default()
        };
        self.path_with(index, remote, &options)
    }

    /// As [`Context::path`], with a service level.
    ///
    /// # Errors
    /// As there.
    // rule: A16-gid-types
    pub fn path_with(
        &self,
        index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<TxMeta, ConnectError> {
        let (src, version) = self.activate(index)?;
        let path = self.path_from(src, version, remote, options);
        self.inner.shared.lock().port.check(&path)?;
        Ok(path)
    }

    /// As [`Context::path_with`], for what may never be sent on: does not start the datapath. If
    /// that starts later, the local address is made usable then.
    pub(crate) fn path_for_later(
        &self,
        index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<TxMeta, ConnectError> {
        let (gid, version, _) = self.gid_at(index)?;
        // Only the datapath tells whether it carries RoCE v1.
        if version == RoceVersion::V2 && self.inner.shared.use_when_started(gid.ip()) {
            return Ok(self.path_from(gid.ip(), version, remote, options));
        }
        self.path_with(index, remote, options)
    }

    fn path_from(
        &self,
        src: IpAddr,
        version: RoceVersion,
        remote: Gid,
        options: &AddressOptions,
    ) -> TxMeta {
        let (level, class) = (options.service_level, options.traffic_class);
        TxMeta {
            src,
            dst: remote.ip(),
            traffic_class: self.inner.priorities.traffic_class(level, class),
            hop_limit: options.hop_limit,
            version,
        }
    }
}
