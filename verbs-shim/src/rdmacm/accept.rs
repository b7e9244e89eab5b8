//! The passive side, which accepts connections, and the disconnection by either side.

use super::connect::options;
use super::event::wait_if_sync;
use super::qp::with_qp;
use super::table::{find, table};
use crate::prelude::*;
use roce_verbs::QpKind;

/// `rdma_listen`. A backlog of 0, or a negative one, means the most.
pub(crate) extern "C" fn listen(id: *mut RdmaCmId, backlog: c_int) -> c_int {
    guard::minus_one("rdma_listen", || {
        let id = find(id)?;
        let backlog = usize::try_from(backlog).unwrap_or(0);
        id.cm.listen(&table()?.devices, backlog).or_errno()?;
        table()?.update(&id)
    })
}

pub(crate) extern "C" fn accept(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one("rdma_accept", || {
        let id = find(id)?;
        let options = options(&id, param)?;
        with_qp(&id, |qp| id.cm.accept(options, qp)).or_errno()?;
        match id.cm.kind() {
            // No event follows.
            QpKind::Ud => Ok(()),
            _ => wait_if_sync(&id),
        }
    })
}

pub(crate) extern "C" fn reject(id: *mut RdmaCmId, private: In<u8>, len: u8) -> c_int {
    guard::minus_one("rdma_reject", || {
        let id = find(id)?;
        id.cm.reject(private.slice(len.into())?).or_errno()
    })
}

/// `rdma_notify`: the program reports `IBV_EVENT_COMM_EST` of the connection's QP.
pub(crate) extern "C" fn notify(id: *mut RdmaCmId, event: u32) -> c_int {
    guard::minus_one("rdma_notify", || {
        let id = find(id)?;
        match event {
            EVENT_COMM_EST => id.cm.communication_established().or_errno(),
            _ => Err(Errno::EINVAL),
        }
    })
}

pub(crate) extern "C" fn disconnect(id: *mut RdmaCmId) -> c_int {
    guard::minus_one("rdma_disconnect", || {
        let id = find(id)?;
        let is_sync = id.is_sync();
        with_qp(&id, |qp| id.cm.disconnect(qp, is_sync)).or_errno()?;
        wait_if_sync(&id)
    })
}
