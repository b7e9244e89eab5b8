//! Changing and querying the attributes of QPs.

use super::{Qp, transitions};
use crate::ah::{address_options, check_path};
use crate::convert::{access, c_qp_state, gid, qp_state};
use crate::prelude::*;
use crate::rates::static_rate;
use crate::state::check_port;
use roce_verbs::qp::{PathMtu, QKey, QpAttributes, QpState, RateLimit, RnrTimer};
use roce_verbs::{Access, Psn, QpKind, Qpn};

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
        let (from, _) = self.qp.query();
        let to = if_set(mask & QP_STATE != 0, || qp_state(attr.qp_state))?;
        transitions::check(self.kind, from, to.unwrap_or(from), mask)?;
        let attributes = self.attributes(attr, mask)?;
        if self.kind == QpKind::Ud && attributes.state == Some(QpState::Rtr) {
            // A UD QP receives packets to any address of the device.
            self.state.roce.activate_all().or_errno()?;
        }
        self.qp.modify(&attributes).or_errno()?;
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

    fn attributes(&self, attr: &IbvQpAttr, mask: u32) -> Result<QpAttributes, Errno> {
        let has = |bit| mask & bit != 0;
        if has(QP_CUR_STATE) {
            let (told, found) = (qp_state(attr.cur_qp_state)?, self.qp.query().0);
            if told != found {
                return Err(wrong(|| {
                    format!(
                        "cur_qp_state is {}, but the QP is in {}",
                        told.name(),
                        found.name()
                    )
                }));
            }
        }
        // There is no path to migrate to.
        if has(QP_PATH_MIG_STATE) && attr.path_mig_state != MIG_MIGRATED {
            return Err(wrong(|| {
                "path_mig_state must be IBV_MIG_MIGRATED: there is no other path".to_owned()
            }));
        }
        if has(QP_PORT) {
            check_port(attr.port_num.into())?;
        }
        if has(QP_PKEY_INDEX) && attr.pkey_index != 0 {
            let index = attr.pkey_index;
            return Err(wrong(|| {
                format!("pkey_index is {index}, but the device has only one P_Key, at index 0")
            }));
        }
        // Programs set requester attributes on an XRC target and responder attributes on an XRC
        // initiator. As NICs do, accept and ignore them.
        let is_responder = self.kind != QpKind::XrcInitiator;
        let is_requester = self.kind != QpKind::XrcTarget;
        Ok(QpAttributes {
            state: if_set(has(QP_STATE), || qp_state(attr.qp_state))?,
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
            max_dest_rd_atomic: (is_responder && has(QP_MAX_DEST_RD_ATOMIC))
                .then_some(attr.max_dest_rd_atomic),
            min_rnr_timer: if_set(is_responder && has(QP_MIN_RNR_TIMER), || {
                let code = attr.min_rnr_timer;
                RnrTimer::from_code(code).ok_or_else(|| {
                    wrong(|| format!("min_rnr_timer is {code}, but must be 0 to 31"))
                })
            })?,
            sq_psn: has(QP_SQ_PSN).then(|| Psn::new(attr.sq_psn)),
            timeout: has(QP_TIMEOUT).then_some(attr.timeout),
            retry_cnt: (is_requester && has(QP_RETRY_CNT)).then_some(attr.retry_cnt),
            rnr_retry: (is_requester && has(QP_RNR_RETRY)).then_some(attr.rnr_retry),
            max_rd_atomic: (is_requester && has(QP_MAX_QP_RD_ATOMIC)).then_some(attr.max_rd_atomic),
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
        // Each packet is counted with its actual size, so the typical packet size does not affect
        // the rate. It is only used to refuse a burst that is smaller than one packet.
        let packet = match u32::from(attr.typical_pkt_sz) {
            0 => u32::try_from(self.qp.query().1.path_mtu.bytes()).unwrap_or(u32::MAX),
            bytes => bytes,
        };
        let no_rate = attr.rate_limit == 0 && attr.typical_pkt_sz != 0;
        let short = attr.max_burst_sz != 0 && attr.max_burst_sz < packet;
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EINVAL)?;
        if no_rate || short {
            return Err(Errno::EINVAL);
        }
        let limit = RateLimit {
            kilobits_per_second: attr.rate_limit,
            max_burst_bytes: attr.max_burst_sz,
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
