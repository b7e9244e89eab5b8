//! Multicast groups.

use crate::prelude::*;

pub(crate) extern "C" fn attach_mcast(qp: Handle<IbvQp>, group: In<[u8; 16]>, _lid: u16) -> c_int {
    guard::errno("ibv_attach_mcast", || {
        let group = roce_verbs::device::Gid(group.read()?);
        qp.get()?.qp.attach_multicast(group).or_errno()
    })
}

pub(crate) extern "C" fn detach_mcast(qp: Handle<IbvQp>, group: In<[u8; 16]>, _lid: u16) -> c_int {
    guard::errno("ibv_detach_mcast", || {
        let group = roce_verbs::device::Gid(group.read()?);
        qp.get()?.qp.detach_multicast(group).or_errno()
    })
}
