//! Paths from an address of the device to another host.

use super::{Context, Inner};
use crate::error::ConnectError;
use crate::gid::{Gid, GidEntry, GidTable};
use parking_lot::MutexGuard;
use roce_stack::{RoceVersion, TxMeta};
use std::net::IpAddr;

/// The attributes of a path that have default values.
#[derive(Clone, Copy, Debug)]
pub struct AddressOptions {
    /// DSCP in the upper six bits, ECN in the lower two. The device's settings
    /// ([`PrioritySettings`](crate::settings::PrioritySettings)) may replace the DSCP.
    pub traffic_class: u8,
    /// The service level, 0 to 7. If `traffic_class` has no DSCP, the device's settings map the
    /// service level to one.
    pub service_level: u8,
    /// Time to live, or hop limit. 0 means the datapath's default: with UDP sockets, the kernel's,
    /// which is 1 for multicast groups; with AF_XDP, 64 for all destinations.
    pub hop_limit: u8,
}

impl Default for AddressOptions {
    fn default() -> Self {
        Self {
            // ECN-capable: switches may mark packets instead of dropping them.
            // rule: A17.3.1-ecn-capable
            traffic_class: 2,
            service_level: 0,
            hop_limit: 64,
        }
    }
}

impl Inner {
    /// The current GID table, and its addresses. If the system can't list the interface's
    /// addresses, the table stays as it was.
    fn current_gids(&self) -> (MutexGuard<'_, GidTable>, Vec<IpAddr>) {
        let mut table = self.gids.lock();
        if let Ok(addresses) = self.device.addresses() {
            table.update(&addresses);
        }
        let addresses = table.addresses();
        (table, addresses)
    }
}

impl Context {
    /// The current GID table, which follows the interface's addresses. An entry keeps its index as
    /// long as it exists.
    pub fn gids(&self) -> Vec<GidEntry> {
        self.inner.current_gids().0.entries()
    }

    /// The index of the GID table's entry for one of the device's addresses, for RoCEv2 if there is
    /// such an entry.
    ///
    /// # Errors
    /// [`ConnectError::UnknownAddress`] if the device does not have the address; the error lists
    /// the device's addresses.
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

    /// The GID at `index`, the version of RoCE of its entry, and the interface's addresses.
    pub(crate) fn gid_at(
        &self,
        index: u8,
    ) -> Result<(Gid, RoceVersion, Vec<IpAddr>), ConnectError> {
        let (table, addresses) = self.inner.current_gids();
        match table.get(index) {
            Some((gid, version)) => Ok((gid, version, addresses)),
            None => Err(ConnectError::UnknownGid {
                index,
                known: table.entries().iter().map(|entry| entry.index).collect(),
            }),
        }
    }

    /// Makes the addresses of all GIDs usable, and those that the interface gets later, for a UD QP
    /// that receives at any of them. Returns the number of usable addresses.
    ///
    /// # Errors
    /// If no address can be used; the error is that of the last address.
    pub fn activate_all(&self) -> Result<usize, ConnectError> {
        // Start the datapath even if the device has no address yet: a listener on all addresses
        // also listens on addresses that the interface gets later.
        drop(self.inner.shared.lock_and_start()?);
        self.inner.shared.want_all_addresses();
        let mut last_error = None;
        let mut usable = 0;
        for entry in self.gids() {
            match self.activate(entry.index) {
                Ok(_) => usable += 1,
                Err(error) => last_error = Some(error),
            }
        }
        match last_error {
            Some(error) if usable == 0 => Err(error),
            _ => Ok(usable),
        }
    }

    /// Makes the address at a GID index usable. Returns it, and the version of RoCE of its entry.
    pub(crate) fn activate(&self, index: u8) -> Result<(IpAddr, RoceVersion), ConnectError> {
        let (gid, version, addresses) = self.gid_at(index)?;
        let address = gid.ip();
        let mut engine = self.inner.shared.lock_and_start()?;
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

    /// The path from the GID at `index` to `remote`. Makes the local address usable. The GID's
    /// entry determines the version of RoCE. A `hop_limit` of 0 means the default time to live or
    /// hop limit. The device's [settings](crate::settings::PrioritySettings::traffic_class) map
    /// `traffic_class`, with service level 0, to the packets' traffic class.
    ///
    /// # Errors
    /// If the table has no such entry, its address can't be used, the datapath does not carry its
    /// version of RoCE, or `remote` can't be reached from it.
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

    /// Like [`Context::path`], with a service level.
    ///
    /// # Errors
    /// As for [`Context::path`].
    // rule: A16-gid-types, CA17-40-connected-version, CA17-42-datagram-version
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

    /// Like [`Context::path_with`], for a path that may never be used. For RoCE v2, does not start
    /// the datapath; if the datapath starts later, the local address becomes usable then. For RoCE
    /// v1, starts the datapath.
    pub(crate) fn path_for_later(
        &self,
        index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<TxMeta, ConnectError> {
        let (gid, version, _) = self.gid_at(index)?;
        // Only the datapath knows whether it carries RoCE v1.
        if version == RoceVersion::V2 && self.inner.shared.activate_when_started(gid.ip()) {
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
