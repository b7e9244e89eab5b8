//! Unreliable datagrams: address handles, QPs without a peer, multicast groups.

use super::QueuePair;
use crate::context::AddressOptions;
use crate::error::ConnectError;
use crate::gid::Gid;
use crate::pd::ProtectionDomain;
use roce_stack::{AddressHandle, MulticastError, QpAttributes, QpState};
use roce_wire::QKey;
use std::net::IpAddr;

impl ProtectionDomain {
    /// Creates an address handle: a path from the GID at `gid_index` of the device's table to
    /// `remote`, which may be a multicast group's GID (`ff00::/8`, or 224.0.0.0/4 as an IPv4-mapped
    /// IPv6 address). QPs of this domain use it to send datagrams.
    ///
    /// Some programs create handles only to see which GIDs a device has, so this does not start the
    /// datapath for a RoCE v2 entry. Until the datapath has started, this does not check whether
    /// the local address is usable and the remote one reachable. For a RoCE v1 entry, this starts
    /// the datapath, because only the datapath knows whether it carries RoCE v1.
    ///
    /// # Errors
    /// As for [`Context::path`](crate::Context::path), or if the two addresses are of different
    /// families.
    pub fn create_ah(
        &self,
        gid_index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<AddressHandle, ConnectError> {
        let path = self.context.path_for_later(gid_index, remote, options)?;
        let engine = self.context.inner.shared.lock();
        Ok(engine.nic.create_ah(self.id, path)?)
    }
}

impl QueuePair {
    /// Moves a UD QP from RESET to INIT: it accepts receives from now on. The QP drops datagrams
    /// that do not carry `qkey`.
    ///
    /// # Errors
    /// If the QP is in another state or of another kind.
    pub fn init_datagram(&self, qkey: QKey) -> Result<(), ConnectError> {
        let attributes = QpAttributes {
            state: Some(QpState::Init),
            qkey: Some(qkey),
            ..QpAttributes::default()
        };
        Ok(self.modify(&attributes)?)
    }

    /// Moves a UD QP from INIT to RTS: it receives datagrams for the GID at `gid_index` of the
    /// device's table, and can send.
    ///
    /// # Errors
    /// If the QP is in another state or of another kind, or the address of the GID
    /// can't be used.
    pub fn start_datagram(&self, gid_index: u8) -> Result<(), ConnectError> {
        self.pd.context.activate(gid_index)?;
        self.modify(&QpAttributes {
            state: Some(QpState::Rtr),
            ..QpAttributes::default()
        })?;
        self.modify(&QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: Some(self.psn),
            ..QpAttributes::default()
        })?;
        Ok(())
    }

    /// Moves a UD QP from RESET to RTS.
    ///
    /// # Errors
    /// As for [`QueuePair::init_datagram`] and [`QueuePair::start_datagram`].
    pub fn activate(&self, gid_index: u8, qkey: QKey) -> Result<(), ConnectError> {
        self.init_datagram(qkey)?;
        self.start_datagram(gid_index)
    }

    /// Attaches a UD QP to the multicast group: it gets a copy of each datagram to the group,
    /// including those that this host and the QP itself send. The interface joins the group. A
    /// second call for the same group does nothing.
    ///
    /// # Errors
    /// If the QP is of another kind, the GID is not a multicast group's, or the operating system
    /// refuses.
    pub fn attach_multicast(&self, group: Gid) -> Result<(), ConnectError> {
        let group = group.ip();
        let shared = &self.pd.context.inner.shared;
        let mut engine = shared.lock_and_start()?;
        if engine.nic.attach_multicast(self.qpn, group)?
            && let Err(error) = engine.port.join(group)
        {
            engine.nic.detach_multicast(self.qpn, group)?;
            return Err(error.into());
        }
        let mut groups = self.groups.lock();
        if !groups.contains(&group) {
            groups.push(group);
        }
        drop(engine);
        // The background thread has one more socket to watch.
        shared.wake_driver();
        Ok(())
    }

    /// Detaches the QP from the multicast group. Dropping the QP does so, too.
    ///
    /// # Errors
    /// If the QP is not attached to the group.
    pub fn detach_multicast(&self, group: Gid) -> Result<(), MulticastError> {
        let group = group.ip();
        self.leave(group)?;
        self.groups.lock().retain(|member| *member != group);
        Ok(())
    }

    pub(crate) fn leave_groups(&self) {
        for group in core::mem::take(&mut *self.groups.lock()) {
            // This can't fail: the list has only groups that the QP is attached to.
            let _ = self.leave(group);
        }
    }

    fn leave(&self, group: IpAddr) -> Result<(), MulticastError> {
        let mut engine = self.pd.context.inner.shared.lock();
        if engine.nic.detach_multicast(self.qpn, group)? {
            engine.port.leave(group);
        }
        Ok(())
    }
}
