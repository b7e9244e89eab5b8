//! Multicast groups: the QPs that get a copy of each message to a group (IBTA 1.7, 10.5).

use super::Nic;
use crate::counters::DropReason;
use crate::encapsulation::RxMeta;
use crate::kind::QpKind;
use crate::time::Instant;
use core::fmt;
use roce_wire::{Packet, Qpn};
use std::collections::HashMap;
use std::net::IpAddr;

/// The QPs that are attached to each group, in the order of their attachment.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: HashMap<IpAddr, Vec<Qpn>>,
}

impl Groups {
    /// The group's QP at `index`; `None` beyond the last.
    fn member(&self, group: IpAddr, index: usize) -> Option<Qpn> {
        self.members.get(&group)?.get(index).copied()
    }

    /// Detaches a QP from all groups.
    pub(super) fn remove(&mut self, qpn: Qpn) {
        self.members.retain(|_, members| {
            members.retain(|member| *member != qpn);
            !members.is_empty()
        });
    }
}

/// Why a QP was not attached to a group or detached from it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MulticastError {
    /// No QP has this number.
    UnknownQp(Qpn),
    /// Only UD QPs receive multicasts.
    NotDatagram {
        /// The QP's service.
        kind: QpKind,
    },
    /// The address is not a multicast address.
    NotMulticast(IpAddr),
    /// The QP is not attached to the group.
    NotAttached {
        /// The QP.
        qpn: Qpn,
        /// The group.
        group: IpAddr,
    },
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownQp(qpn) => write!(f, "no QP has number {qpn}"),
            Self::NotDatagram { kind } => {
                write!(f, "a {kind} QP can't be in a multicast group: only UD can")
            }
            Self::NotMulticast(group) => write!(
                f,
                "{group} is not a multicast address: those are in 224.0.0.0/4 and ff00::/8"
            ),
            Self::NotAttached { qpn, group } => {
                write!(f, "QP {qpn} is not attached to multicast group {group}")
            }
        }
    }
}

impl fmt::Debug for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for MulticastError {}

impl Nic {
    /// Attaches a UD QP to a multicast group: each attached QP gets a copy of every message to the
    /// group, its own included (IBTA 1.7, 10.5.2). Attaching it twice does nothing. Returns whether
    /// the QP is the group's first: then the port must join the group.
    ///
    /// # Errors
    /// See [`MulticastError`].
    // rule: 9.8.3-multicast-ud
    pub fn attach_multicast(&mut self, qpn: Qpn, group: IpAddr) -> Result<bool, MulticastError> {
        let kind = self
            .qps
            .get(qpn)
            .map(|qp| qp.kind())
            .ok_or(MulticastError::UnknownQp(qpn))?;
        if kind != QpKind::Ud {
            return Err(MulticastError::NotDatagram { kind });
        }
        if !group.is_multicast() {
            return Err(MulticastError::NotMulticast(group));
        }
        let members = self.groups.members.entry(group).or_default();
        let is_first = members.is_empty();
        if !members.contains(&qpn) {
            members.push(qpn);
        }
        Ok(is_first)
    }

    /// Detaches a QP from a multicast group. Returns whether it was the group's last: then the port
    /// should leave the group.
    ///
    /// # Errors
    /// See [`MulticastError`].
    pub fn detach_multicast(&mut self, qpn: Qpn, group: IpAddr) -> Result<bool, MulticastError> {
        let not_attached = MulticastError::NotAttached { qpn, group };
        let members = self.groups.members.get_mut(&group).ok_or(not_attached)?;
        let index = members.iter().position(|member| *member == qpn);
        members.remove(index.ok_or(not_attached)?);
        let was_last = members.is_empty();
        if was_last {
            self.groups.members.remove(&group);
        }
        Ok(was_last)
    }

    /// The QPs that are attached to a group.
    pub fn multicast_members(&self, group: IpAddr) -> &[Qpn] {
        self.groups.members.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Gives a copy to each QP of the group.
    // rule: 9.8.3-multicast
    pub(super) fn receive_multicast(&mut self, now: Instant, meta: &RxMeta, packet: &Packet<'_>) {
        let mut index = 0;
        while let Some(qpn) = self.groups.member(meta.dst, index) {
            self.receive_for(now, qpn, meta, packet);
            index += 1;
        }
        if index == 0 {
            self.shared.counters.drop(DropReason::NoGroup);
        }
    }
}
