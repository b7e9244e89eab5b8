//! Requests that need no packet: binding memory windows, invalidating keys (IBTA 1.7, 10.6.5 and
//! 10.6.7). The send queue decides when their turn comes.

use super::{Core, Cx, QpFailure};
use crate::cause::Cause;
use crate::wr::{SendOp, WcStatus};

/// Executes a local request. If it fails, returns the failure that completes the request with an
/// error.
pub(super) fn perform(cx: &mut Cx<'_>, core: &Core, op: &SendOp) -> Result<(), QpFailure> {
    let done = match op {
        SendOp::BindMw(bind) => {
            let bound = cx.nic.memory.bind(core.pd, core.qpn, bind);
            bound.map_err(Cause::Bind)
        }
        SendOp::LocalInv(key) => {
            let invalidated = cx.nic.memory.invalidate(core.pd, core.qpn, *key);
            invalidated.map_err(|error| Cause::Invalidate { rkey: *key, error })
        }
        _ => Ok(()),
    };
    done.map_err(|cause| {
        cx.observe.failed(cause);
        QpFailure::Send(WcStatus::MemoryWindowBindError)
    })
}
