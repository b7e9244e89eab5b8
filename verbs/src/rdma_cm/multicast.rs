//! Multicast groups of IDs.

use super::{Event, EventData, EventKind, Group, Id, IdError, Inner, State, UDP_QKEY};
use crate::device::Gid;
use crate::qp::QueuePair;
use roce_wire::Qpn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The destination QP number of multicast datagrams.
const ALL_QPS: Qpn = Qpn::from_bits(0xff_ffff);

/// Datagrams to groups stay on the link.
const HOP_LIMIT: u8 = 1;

impl Id {
    /// Joins a group. `qp`, if the ID has one, receives its datagrams. Returns the event that says how it
    /// went.
    ///
    /// # Errors
    /// If the ID's state does not allow it, it is of no datagram service, or it is in the group already.
    pub fn join(
        self: &Arc<Self>,
        group: SocketAddr,
        qp: Option<&QueuePair>,
    ) -> Result<Event, IdError> {
        let address = group_address(group)?;
        let mut inner = self.inner.lock();
        inner.check(&[State::Bound, State::AddrResolved, State::RouteResolved])?;
        if !self.is_datagram() {
            return IdError::invalid("only datagram services have groups".to_owned());
        }
        if inner.groups.iter().any(|group| group.address == address) {
            return Err(IdError::Joined(address));
        }
        let local = inner.local.ok_or(IdError::NoPath)?.ip();
        let path = Some(inner.path(local, address, HOP_LIMIT)?);
        let joined = inner.attach(address, qp);
        let (good, bad) = (EventKind::MulticastJoin, EventKind::MulticastError);
        Ok(Event {
            data: EventData::Datagram {
                path,
                qpn: ALL_QPS,
                qkey: UDP_QKEY,
            },
            ..Event::of(self, joined, good, bad)
        })
    }

    /// Leaves a group. `qp` is the ID's QP, if it has one.
    ///
    /// # Errors
    /// If the ID is not in the group.
    pub fn leave_group(&self, group: SocketAddr, qp: Option<&QueuePair>) -> Result<(), IdError> {
        let address = group_address(group)?;
        let mut inner = self.inner.lock();
        let mut groups = inner.groups.iter();
        let found = groups.position(|group| group.address == address);
        let group = inner
            .groups
            .remove(found.ok_or(IdError::NotJoined(address))?);
        if let Some(qp) = qp.filter(|_| group.is_attached) {
            let detached = qp.detach_multicast(Gid::from(address));
            detached.map_err(crate::error::ConnectError::from)?;
        }
        Ok(())
    }

    /// Forgets the groups of a QP that is gone.
    pub fn forget_groups(&self) {
        self.inner.lock().groups.clear();
    }
}

impl Inner {
    /// Adds a group to the ID, and attaches its QP, if there is one.
    fn attach(&mut self, address: IpAddr, qp: Option<&QueuePair>) -> Result<(), IdError> {
        if let Some(qp) = qp {
            qp.attach_multicast(Gid::from(address))?;
        }
        self.groups.push(Group {
            address,
            is_attached: qp.is_some(),
        });
        Ok(())
    }
}

fn group_address(group: SocketAddr) -> Result<IpAddr, IdError> {
    let group = group.ip().to_canonical();
    match group.is_multicast() {
        true => Ok(group),
        false => IdError::invalid(format!("{group} is no multicast address")),
    }
}
