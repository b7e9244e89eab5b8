//! Multicast groups of IDs.

use super::event::wait_if_sync;
use super::id::{EventData, Group, Id, Inner, PendingEvent, State};
use super::table::find;
use super::{path, sockaddr};
use crate::prelude::*;
use roce_verbs::device::Gid;
use std::net::IpAddr;

/// The destination QP number of multicast datagrams.
const MULTICAST_QPN: u32 = 0xff_ffff;

/// Datagrams to groups stay on the link.
const HOP_LIMIT: u8 = 1;

pub(crate) extern "C" fn join_multicast(
    id: *mut RdmaCmId,
    address: In<u8>,
    context: *mut c_void,
) -> c_int {
    guard::minus_one("rdma_join_multicast", || {
        join(id, address, true, context as usize)
    })
}

pub(crate) extern "C" fn join_multicast_ex(
    id: *mut RdmaCmId,
    attr: In<RdmaJoinMcAttrEx>,
    context: *mut c_void,
) -> c_int {
    guard::minus_one("rdma_join_multicast_ex", || {
        let attr = attr.get()?;
        let known = CM_JOIN_MC_ATTR_ADDRESS | CM_JOIN_MC_ATTR_JOIN_FLAGS;
        if attr.comp_mask != known {
            return Err(Errno::EINVAL);
        }
        let receives = match attr.join_flags {
            MC_JOIN_FLAG_FULLMEMBER => true,
            MC_JOIN_FLAG_SENDONLY_FULLMEMBER => false,
            _ => return Err(Errno::EINVAL),
        };
        join(id, attr.addr, receives, context as usize)
    })
}

fn group(address: In<u8>) -> Result<IpAddr, Errno> {
    let group = sockaddr::canonical(sockaddr::read(address)?).ip();
    if group.is_multicast() {
        Ok(group)
    } else {
        Err(with_reason(Errno::EINVAL, || {
            format!("{group} is no multicast address")
        }))
    }
}

/// Joins a group. The QP of a send-only member (`receives` is false) is not attached to it.
fn join(id: *mut RdmaCmId, address: In<u8>, receives: bool, context: usize) -> Result<(), Errno> {
    let id = find(id)?;
    let address = group(address)?;
    let event = {
        let mut inner = id.inner.lock();
        inner.check(&[State::Bound, State::AddrResolved, State::RouteResolved])?;
        if !id.is_datagram {
            return Err(Errno::EINVAL);
        }
        if inner.groups.iter().any(|group| group.address == address) {
            return Err(Errno::EADDRINUSE);
        }
        let data = EventData::Datagram(RdmaUdParam {
            private_data: context as *const c_void,
            ah_attr: path_to(&inner, address)?,
            qp_num: MULTICAST_QPN,
            qkey: UDP_QKEY,
            ..Zero::zeroed()
        });
        let joined = attach(&id, &mut inner, address, receives);
        let (good, bad) = (CM_EVENT_MULTICAST_JOIN, CM_EVENT_MULTICAST_ERROR);
        PendingEvent {
            data,
            ..PendingEvent::of(&id, joined, good, bad)
        }
    };
    id.push_event(event);
    wait_if_sync(&id)
}

fn path_to(inner: &Inner, group: IpAddr) -> Result<IbvAhAttr, Errno> {
    let local = inner.local.ok_or(Errno::EINVAL)?.ip();
    let class = inner.options.traffic_class;
    path::ah_attr(inner.device()?, local, Gid::from(group), class, HOP_LIMIT)
}

/// Adds a group to the ID, and attaches its QP, if there is one.
fn attach(id: &Id, inner: &mut Inner, address: IpAddr, receives: bool) -> Result<(), Errno> {
    let gid = Gid::from(address);
    let qp = id.c.get().qp.opt()?.filter(|_| receives);
    if let Some(qp) = qp {
        qp.qp.attach_multicast(gid).or_errno()?;
    }
    inner.groups.push(Group {
        address,
        gid,
        attached: qp.is_some(),
    });
    Ok(())
}

pub(crate) extern "C" fn leave_multicast(id: *mut RdmaCmId, address: In<u8>) -> c_int {
    guard::minus_one("rdma_leave_multicast", || {
        let id = find(id)?;
        let address = group(address)?;
        let mut inner = id.inner.lock();
        let found = inner
            .groups
            .iter()
            .position(|group| group.address == address);
        let group = inner.groups.remove(found.ok_or(Errno::EADDRNOTAVAIL)?);
        match id.c.get().qp.opt()? {
            Some(qp) if group.attached => qp.qp.detach_multicast(group.gid).or_errno(),
            _ => Ok(()),
        }
    })
}
