//! `ibv_query_qp`.

use crate::convert::c_qp_state;
use crate::prelude::*;

/// `ibv_query_qp`. Returns all attributes, whichever are requested.
pub(crate) extern "C" fn query_qp(
    qp: Handle<IbvQp>,
    attr: Out<IbvQpAttr>,
    _mask: c_int,
    init: Out<IbvQpInitAttr>,
) -> c_int {
    guard::errno("ibv_query_qp", || {
        let qp = qp.get()?;
        let state = c_qp_state(qp.update_c_state());
        let (_, config) = qp.qp.query();
        let set = *qp.attr.lock();
        attr.put(IbvQpAttr {
            qp_state: state,
            cur_qp_state: state,
            cap: qp.cap,
            rate_limit: config.rate_limit.kilobits_per_second,
            ..set
        })?;
        let c = qp.c.get().qp_base;
        init.put(IbvQpInitAttr {
            qp_context: c.qp_context,
            send_cq: c.send_cq,
            recv_cq: c.recv_cq,
            srq: c.srq,
            cap: qp.cap,
            qp_type: c.qp_type,
            sq_sig_all: qp.signal_all.into(),
        })
    })
}

/// `ibv_query_qp_data_in_order`: no order is guaranteed.
pub(crate) extern "C" fn query_qp_data_in_order(
    _qp: Handle<IbvQp>,
    _op: u32,
    _flags: u32,
) -> c_int {
    0
}
