//! The path of an ID: the address attributes for its QP, and the path record for C.

use super::device::CmDevice;
use super::id::{Id, Inner};
use crate::ah;
use crate::convert::c_gid;
use crate::prelude::*;
use roce_verbs::device::Gid;
use std::net::IpAddr;

pub(super) const HOP_LIMIT: u8 = 64;

/// The only partition.
const PKEY: u16 = 0xffff;

/// The packet lifetime in the path record: 4.096 µs × 2^`LIFETIME`.
const LIFETIME: u8 = 16;

/// The selector "exactly" of a value in a path record.
const EXACTLY: u8 = 2;

/// The attributes of an address handle.
///
/// # Errors
/// `EADDRNOTAVAIL` if the interface has lost its address.
pub(super) fn ah_attr(
    device: &CmDevice<Id>,
    from: IpAddr,
    to: Gid,
    traffic_class: u8,
    hop_limit: u8,
) -> Result<IbvAhAttr, Errno> {
    Ok(ah::ah_attr(IbvGlobalRoute {
        dgid: c_gid(to),
        sgid_index: device.gid_index(from)?,
        hop_limit,
        traffic_class,
        ..Zero::zeroed()
    }))
}

/// The path to the peer.
///
/// # Errors
/// `EINVAL` if the path is not known.
pub(super) fn to_peer(inner: &Inner) -> Result<IbvAhAttr, Errno> {
    let (local, remote) = inner.ends()?;
    ah_attr(
        inner.device()?,
        local.ip(),
        remote.ip().into(),
        inner.options.traffic_class,
        HOP_LIMIT,
    )
}

/// The largest path MTU whose packets the interface carries.
pub(super) fn mtu(inner: &Inner) -> Result<roce_verbs::qp::PathMtu, Errno> {
    Ok(inner.device()?.roce()?.device().active_mtu())
}

/// Sets `rdma_cm_id.route`: the addresses and the path record.
///
/// # Errors
/// `EINVAL` if the path is not known.
pub(super) fn fill_route(id: &Id, inner: &mut Inner) -> Result<(), Errno> {
    let (local, remote) = inner.ends()?;
    let record = SaPathRec {
        dgid: c_gid(remote.ip().into()),
        sgid: c_gid(local.ip().into()),
        hop_limit: HOP_LIMIT,
        traffic_class: inner.options.traffic_class,
        reversible: 1,
        numb_path: 1,
        pkey: PKEY.to_be(),
        mtu_selector: EXACTLY,
        mtu: mtu(inner)?.code(),
        rate_selector: EXACTLY,
        packet_life_time_selector: EXACTLY,
        packet_life_time: LIFETIME,
        ..Zero::zeroed()
    };
    id.update_c_part(inner);
    let record = inner.path.insert(Box::new(record));
    let part = std::ptr::from_mut(&mut **record);
    id.c.set(|c| {
        c.route.path_rec = part;
        c.route.num_paths = 1;
    });
    Ok(())
}
