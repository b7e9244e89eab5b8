//! The active side, which requests connections, and resolves datagram services to QPs.

use super::attributes;
use super::event::wait_if_sync;
use super::id::Id;
use super::table::find;
use crate::prelude::*;
use roce_verbs::QpKind;
use roce_verbs::rdma_cm::ConnectionOptions;
use roce_verbs::roce_cm::ServiceType;

/// The options of a connection: those of the program, and those that its ID determines.
pub(super) fn options(id: &Id, param: In<RdmaConnParam>) -> Result<ConnectionOptions, Errno> {
    let c = id.c.get();
    let service_type = match attributes::kind(&c)? {
        QpKind::Uc => ServiceType::Uc,
        QpKind::XrcInitiator | QpKind::XrcTarget => ServiceType::Xrc,
        _ => ServiceType::Rc,
    };
    let mut options = ConnectionOptions::new(0, service_type);
    if param.is_null() {
        options.private.clone_from(&id.own.lock().private);
    } else {
        let param = param.get()?;
        let private = param.private_data.slice(param.private_data_len.into())?;
        options = ConnectionOptions {
            qpn: param.qp_num,
            srq: param.srq != 0,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control != 0,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            private: private.to_vec(),
            ..options
        };
    }
    if let Some(qp) = c.qp.opt()? {
        options.qpn = qp.number();
        options.srq = !c.srq.as_ptr().is_null() || qp.has_srq();
    }
    Ok(options)
}

pub(crate) extern "C" fn connect(id: *mut RdmaCmId, param: In<RdmaConnParam>) -> c_int {
    guard::minus_one("rdma_connect", || {
        let id = find(id)?;
        id.cm.connect(options(&id, param)?).or_errno()?;
        wait_if_sync(&id)
    })
}

/// `rdma_establish`: sends an RTU, after the program has brought its QP to RTS.
pub(crate) extern "C" fn establish(id: *mut RdmaCmId) -> c_int {
    guard::minus_one("rdma_establish", || find(id)?.cm.establish().or_errno())
}
