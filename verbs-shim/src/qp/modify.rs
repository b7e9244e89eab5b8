//! Changing and querying the attributes of QPs.

use super::Qp;
use crate::ah::{address_options, check_path};
use crate::convert::{access, c_qp_state, gid, qp_state};
use crate::prelude::*;
use crate::rates::static_rate;
use crate::state::check_port;
use roce_verbs::qp::{FixedAttributes, PathMtu, QKey, QpAttributes, QpState, RateLimit, RnrTimer};
use roce_verbs::{Access, Psn, Qpn};

pub(crate) extern "C" fn modify_qp(qp: Handle<IbvQp>, attr: In<IbvQpAttr>, mask: c_int) -> c_int {
    guard::errno("ibv_modify_qp", || {
        let mask = mask.cast_unsigned();
        let known = match mask & QP_RATE_LIMIT {
            0 => std::mem::offset_of!(IbvQpAttr, rate_limit),
            _ => size_of::<IbvQpAttr>(),
        };
        qp.get()?.modify(&attr.read_prefix(known)?, mask)
    })
}

/// Every bit of `enum ibv_qp_attr_mask` but those of raw packets.
const ALL: u32 = QP_DEST_QPN | (QP_DEST_QPN - 1) | QP_RATE_LIMIT;

/// The unsupported attributes: an alternate path, and resizing of queues.
const UNSUPPORTED: u32 = QP_ALT_PATH | QP_CAP;

impl Qp {
    fn modify(&self, attr: &IbvQpAttr, mask: u32) -> Result<(), Errno> {
        if mask & UNSUPPORTED != 0 {
            return Err(with_reason(Errno::EOPNOTSUPP, || {
                "attr_mask has IBV_QP_ALT_PATH or IBV_QP_CAP, which this device does not support"
                    .to_owned()
            }));
        }
        let has = |bit| mask & bit != 0;
        let to = if_set(has(QP_STATE), || qp_state(attr.qp_state))?;
        if mask & !ALL != 0 {
            return Err(wrong(|| {
                let (from, _) = self.qp.query();
                let (from, to) = (from.name(), to.unwrap_or(from).name());
                let unknown = mask & !ALL;
                format!("{from} to {to}: attr_mask has unknown bits: {unknown:#x}")
            }));
        }
        let fixed = FixedAttributes {
            current_state: if_set(has(QP_CUR_STATE), || qp_state(attr.cur_qp_state))?,
            sets_drain_event: has(QP_EN_SQD_ASYNC_NOTIFY),
            pkey_index: has(QP_PKEY_INDEX).then_some(attr.pkey_index),
            sets_port: has(QP_PORT),
            is_migrated: has(QP_PATH_MIG_STATE).then_some(attr.path_mig_state == MIG_MIGRATED),
        };
        self.qp.check_fixed(to, &fixed).or_errno()?;
        if fixed.sets_port {
            check_port(attr.port_num.into())?;
        }
        let attributes = self.attributes(attr, to, mask)?;
        self.qp.modify_portably(attributes).or_errno()?;
        save_attributes(&mut self.attr.lock(), attr, mask);
        self.update_c_state();
        Ok(())
    }

    /// Updates the field in which programs read the state.
    pub(super) fn update_c_state(&self) -> QpState {
        let (state, _) = self.qp.query();
        self.c.set(|c| c.qp_base.state = c_qp_state(state));
        state
    }

    fn attributes(
        &self,
        attr: &IbvQpAttr,
        state: Option<QpState>,
        mask: u32,
    ) -> Result<QpAttributes, Errno> {
        let has = |bit| mask & bit != 0;
        Ok(QpAttributes {
            state,
            access: if_set(has(QP_ACCESS_FLAGS), || remote_access(attr.qp_access_flags))?,
            qkey: has(QP_QKEY).then_some(QKey(attr.qkey)),
            pkey: None,
            dest_qpn: if_set(has(QP_DEST_QPN), || {
                let number = attr.dest_qp_num;
                Qpn::new(number).ok_or_else(|| {
                    wrong(|| format!("dest_qp_num is {number:#x}, but must fit in 24 bits"))
                })
            })?,
            path: if_set(has(QP_AV), || self.path(&attr.ah_attr))?,
            static_rate: if_set(has(QP_AV), || static_rate(attr.ah_attr.static_rate))?,
            path_mtu: if_set(has(QP_PATH_MTU), || {
                let code = u8::try_from(attr.path_mtu).ok();
                code.and_then(PathMtu::from_code).ok_or_else(|| {
                    wrong(|| {
                        let given = attr.path_mtu;
                        format!(
                            "path_mtu is {given}, but must be IBV_MTU_256 to IBV_MTU_4096, 1 to 5"
                        )
                    })
                })
            })?,
            rq_psn: has(QP_RQ_PSN).then(|| Psn::new(attr.rq_psn)),
            max_dest_rd_atomic: has(QP_MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic),
            min_rnr_timer: if_set(has(QP_MIN_RNR_TIMER), || {
                let code = attr.min_rnr_timer;
                RnrTimer::from_code(code).ok_or_else(|| {
                    wrong(|| format!("min_rnr_timer is {code}, but must be 0 to 31"))
                })
            })?,
            sq_psn: has(QP_SQ_PSN).then(|| Psn::new(attr.sq_psn)),
            timeout: has(QP_TIMEOUT).then_some(attr.timeout),
            retry_cnt: has(QP_RETRY_CNT).then_some(attr.retry_cnt),
            rnr_retry: has(QP_RNR_RETRY).then_some(attr.rnr_retry),
            max_rd_atomic: has(QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic),
            rate_limit: has(QP_RATE_LIMIT).then(|| RateLimit::kilobits_per_second(attr.rate_limit)),
        })
    }

    fn path(&self, attr: &IbvAhAttr) -> Result<roce_verbs::device::TxMeta, Errno> {
        check_path(attr)?;
        let route = &attr.grh;
        let (from, to) = (route.sgid_index, gid(route.dgid));
        let path = self.state.roce.path_with(from, to, &address_options(attr));
        path.or_errno()
    }
}

fn wrong(reason: impl FnOnce() -> String) -> Errno {
    with_reason(Errno::EINVAL, reason)
}

/// Converts a value if its bit in the mask is set.
fn if_set<T>(is_set: bool, value: impl FnOnce() -> Result<T, Errno>) -> Result<Option<T>, Errno> {
    is_set.then(value).transpose()
}

/// Converts a QP's access flags. Programs pass the flags of their regions, of which only the remote
/// rights apply to a QP.
fn remote_access(flags: u32) -> Result<Access, Errno> {
    let local = ACCESS_LOCAL_WRITE | ACCESS_MW_BIND | ACCESS_ON_DEMAND | ACCESS_OPTIONAL_RANGE;
    access(flags & !local)
}

fn save_attributes(known: &mut IbvQpAttr, attr: &IbvQpAttr, mask: u32) {
    macro_rules! take {
        ($($bit:ident: $($field:ident),*;)*) => {
            $(if mask & $bit != 0 { $(known.$field = attr.$field;)* })*
        };
    }
    take! {
        QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify;
        QP_ACCESS_FLAGS: qp_access_flags;
        QP_PKEY_INDEX: pkey_index;
        QP_PORT: port_num;
        QP_QKEY: qkey;
        QP_AV: ah_attr;
        QP_PATH_MTU: path_mtu;
        QP_TIMEOUT: timeout;
        QP_RETRY_CNT: retry_cnt;
        QP_RNR_RETRY: rnr_retry;
        QP_RQ_PSN: rq_psn;
        QP_MAX_QP_RD_ATOMIC: max_rd_atomic;
        QP_MIN_RNR_TIMER: min_rnr_timer;
        QP_SQ_PSN: sq_psn;
        QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
        QP_PATH_MIG_STATE: path_mig_state;
        QP_DEST_QPN: dest_qp_num;
    }
}

pub(crate) extern "C" fn modify_qp_rate_limit(
    qp: Handle<IbvQp>,
    attr: In<IbvQpRateLimitAttr>,
) -> c_int {
    guard::errno("ibv_modify_qp_rate_limit", || {
        qp.get()?.limit_rate(&attr.read()?)
    })
}

impl Qp {
    fn limit_rate(&self, attr: &IbvQpRateLimitAttr) -> Result<(), Errno> {
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EINVAL)?;
        let limit = RateLimit {
            kilobits_per_second: attr.rate_limit,
            max_burst_bytes: attr.max_burst_sz,
            typical_packet_bytes: attr.typical_pkt_sz.into(),
        };
        self.qp.set_rate_limit(limit).or_errno()
    }
}

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
