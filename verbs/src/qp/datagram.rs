//! Unreliable datagrams: address handles, QPs without a peer, multicast groups.

use super::QueuePair;
use crate::context::{AddressOptions, Context};
use crate::error::ConnectError;
use crate::gid::Gid;
use crate::pd::ProtectionDomain;
use roce_stack::{AddressHandle, MulticastError, QpAttributes, QpState};
use roce_wire::QKey;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses in the 40 bytes in front of a received datagram: an IPv6 header or a GRH, or an IPv4
/// header in the last 20 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// The sender's address.
    pub source: IpAddr,
    /// The address that the datagram was sent to, which may be a multicast group's.
    pub destination: IpAddr,
    /// The traffic class.
    pub traffic_class: u8,
}

impl DatagramHeader {
    /// The length in bytes.
    pub const LEN: usize = 40;

    /// Reads the header. `None` if it is neither of IPv6 nor of IPv4.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let ip6 = |at: usize| {
            let octets: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).to_canonical())
        };
        let ip4 = |at: usize| {
            let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        };
        let (source, destination, traffic_class) = match (bytes[0] >> 4, bytes[20]) {
            (6, _) => (ip6(8)?, ip6(24)?, bytes[0] << 4 | bytes[1] >> 4),
            (_, 0x45) => (ip4(32)?, ip4(36)?, bytes[21]),
            _ => return None,
        };
        Some(Self {
            source,
            destination,
            traffic_class,
        })
    }
}

impl Context {
    /// The index of the GID from which to answer a datagram that was sent to `destination`: that of the
    /// address, or, if it is a multicast group's, the first of its family.
    pub fn gid_index_to_answer(&self, destination: IpAddr) -> Option<u8> {
        let gids = self.gids();
        let same = gids.iter().find(|entry| entry.gid.ip() == destination);
        let family = |gid: Gid| gid.ip().is_ipv4() == destination.is_ipv4();
        let found = same.or_else(|| gids.iter().find(|entry| family(entry.gid)));
        found.map(|entry| entry.index)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_of_ipv6_or_in_its_second_half_of_ipv4() {
        let mut bytes = [0; DatagramHeader::LEN];
        assert_eq!(DatagramHeader::parse(&bytes), None);
        bytes[20..22].copy_from_slice(&[0x45, 0x6a]);
        bytes[32..].copy_from_slice(&[10, 0, 0, 1, 239, 0, 0, 7]);
        let header = DatagramHeader::parse(&bytes).expect("IPv4");
        assert_eq!(header.source, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(header.destination, IpAddr::from([239, 0, 0, 7]));
        assert_eq!(header.traffic_class, 0x6a);

        let [from, to]: [Ipv6Addr; 2] =
            ["fe80::1", "::ffff:10.0.0.2"].map(|ip| ip.parse().expect("ok"));
        bytes[..2].copy_from_slice(&[0x66, 0xa0]);
        bytes[8..24].copy_from_slice(&from.octets());
        bytes[24..].copy_from_slice(&to.octets());
        let header = DatagramHeader::parse(&bytes).expect("IPv6");
        assert_eq!(header.source, IpAddr::from(from));
        assert_eq!(
            header.destination,
            IpAddr::from([10, 0, 0, 2]),
            "as of RoCE v1"
        );
        assert_eq!(header.traffic_class, 0x6a);
    }
}
