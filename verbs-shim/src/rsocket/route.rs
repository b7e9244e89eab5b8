//! RDMA_ROUTE: `struct ibv_path_data`.

use crate::prelude::*;
use roce_rsockets::Route;
use roce_verbs::qp::PathMtu;
use std::net::IpAddr;

/// The length of the structure in bytes, and the places of its fields.
const LEN: usize = 72;
const DGID: usize = 16;
const SGID: usize = 32;
const FLOW_LABEL_AND_HOP_LIMIT: usize = 52;
const TRAFFIC_CLASS: usize = 56;
const REVERSIBLE_AND_COUNT: usize = 57;
const PKEY: usize = 58;
const MTU: usize = 62;
const LIFETIME: usize = 64;

/// `IBV_PATH_FLAG_GMP`, `_PRIMARY` and `_BIDIRECTIONAL`.
const FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;
/// The selector of a value that is exact.
const EXACTLY: u8 = 2 << 6;
/// As in the path records of IDs.
const PACKET_LIFETIME: u8 = 16;

/// The first path of an array. Its GIDs are addresses, as of RoCE v2.
pub(super) fn read(paths: In<u8>, len: u32) -> Result<Route, Errno> {
    let len = len as usize;
    if len == 0 || !len.is_multiple_of(LEN) {
        return Err(with_reason(Errno::EINVAL, || {
            format!("{len} bytes, but a path (struct ibv_path_data) has {LEN}")
        }));
    }
    let path = paths.slice(LEN)?;
    let gid = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&path[at..at + 16]);
        IpAddr::V6(bytes.into()).to_canonical()
    };
    Ok(Route {
        source: gid(SGID),
        destination: gid(DGID),
        traffic_class: path[TRAFFIC_CLASS],
        hop_limit: path[FLOW_LABEL_AND_HOP_LIMIT + 3],
    })
}

pub(super) fn write(
    route: &Route,
    path_mtu: PathMtu,
    to: Out<u8>,
    len: Out<u32>,
) -> Result<(), Errno> {
    if (*len.get()? as usize) < LEN {
        return Err(with_reason(Errno::EINVAL, || {
            format!("room for less than a path, which has {LEN} bytes")
        }));
    }
    let mut path = [0; LEN];
    path[..4].copy_from_slice(&FLAGS.to_ne_bytes());
    let gids = [(DGID, route.destination), (SGID, route.source)];
    for (at, address) in gids {
        let gid = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        path[at..at + 16].copy_from_slice(&gid.octets());
    }
    path[FLOW_LABEL_AND_HOP_LIMIT + 3] = route.hop_limit;
    path[TRAFFIC_CLASS] = route.traffic_class;
    path[REVERSIBLE_AND_COUNT] = 1 << 7 | 1;
    path[PKEY..PKEY + 2].copy_from_slice(&0xffff_u16.to_be_bytes());
    path[MTU] = EXACTLY | path_mtu.code();
    path[LIFETIME] = EXACTLY | PACKET_LIFETIME;
    to.slice(LEN)?.copy_from_slice(&path);
    len.put(LEN as u32)
}
