//! RDMA_ROUTE: `struct ibv_path_data`.

use crate::convert::{c_gid, gid};
use crate::prelude::*;
use roce_rsockets::Route;
use roce_verbs::qp::PathMtu;

/// `IBV_PATH_FLAG_GMP`, `_PRIMARY` and `_BIDIRECTIONAL`.
const FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;
/// The selector of a value that is exact.
const EXACTLY: u8 = 2 << 6;
/// As in the path records of IDs.
const PACKET_LIFETIME: u8 = 16;

const LEN: usize = size_of::<IbvPathData>();

/// The first path of an array. Its GIDs are addresses, as of RoCE v2.
pub(super) fn read(paths: In<u8>, len: u32) -> Result<Route, Errno> {
    let len = len as usize;
    if len == 0 || !len.is_multiple_of(LEN) {
        return Err(with_reason(Errno::EINVAL, || {
            format!("{len} bytes, but a path (struct ibv_path_data) has {LEN}")
        }));
    }
    let IbvPathData { path, .. } = paths.field(0).read()?;
    let [.., hop_limit] = path.flowlabel_hoplimit.to_ne_bytes();
    Ok(Route {
        source: gid(path.sgid).ip(),
        destination: gid(path.dgid).ip(),
        traffic_class: path.tclass,
        hop_limit,
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
    let path = IbvPathRecord {
        dgid: c_gid(route.destination.into()),
        sgid: c_gid(route.source.into()),
        flowlabel_hoplimit: u32::from(route.hop_limit).to_be(),
        tclass: route.traffic_class,
        reversible_numpath: 1 << 7 | 1,
        pkey: 0xffff,
        mtu: EXACTLY | path_mtu.code(),
        packetlifetime: EXACTLY | PACKET_LIFETIME,
        ..Zero::zeroed()
    };
    let reserved = 0;
    let data = IbvPathData {
        flags: FLAGS,
        reserved,
        path,
    };
    to.field(0).put(data)?;
    len.put(LEN as u32)
}
