//! Creating and destroying QPs.

use super::{Qp, wr};
use crate::convert::qp_kind;
use crate::prelude::*;
use crate::state::State;
use roce_verbs::qp::MAX_QUEUE_DEPTH;
use roce_verbs::work::{MAX_INLINE_BYTES, MAX_SGE, OpGroup};
use roce_verbs::{QpKind, QpOptions, QueuePair};

pub(crate) extern "C" fn create_qp(pd: Handle<IbvPd>, attr: Out<IbvQpInitAttr>) -> *mut IbvQp {
    guard::pointer("ibv_create_qp", || {
        let to = attr.field(std::mem::offset_of!(IbvQpInitAttr, cap));
        let params = attr.input().read()?.in_domain(pd);
        params.create(pd.get()?.context(), to)
    })
}

impl IbvQpInitAttr {
    /// The same attributes, of a QP in a domain.
    pub(crate) fn in_domain(self, pd: Handle<IbvPd>) -> IbvQpInitAttrEx {
        IbvQpInitAttrEx {
            qp_context: self.qp_context,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            cap: self.cap,
            qp_type: self.qp_type,
            sq_sig_all: self.sq_sig_all,
            comp_mask: QP_INIT_ATTR_PD,
            pd,
            ..Zero::zeroed()
        }
    }
}

pub(crate) extern "C" fn create_qp_ex(
    context: Handle<IbvContext>,
    attr: Out<IbvQpInitAttrEx>,
) -> *mut IbvQp {
    guard::pointer("ibv_create_qp_ex", || {
        context.get()?;
        let to = attr.field(std::mem::offset_of!(IbvQpInitAttrEx, cap));
        attr.input().read_grown()?.create(context, to)
    })
}

/// The bits of `send_ops_flags`.
const SEND_OPS: [(OpGroup, u32); 3] = [
    (OpGroup::Send, QP_EX_WITH_SEND | QP_EX_WITH_SEND_WITH_IMM),
    (
        OpGroup::Write,
        QP_EX_WITH_RDMA_WRITE
            | QP_EX_WITH_RDMA_WRITE_WITH_IMM
            | QP_EX_WITH_LOCAL_INV
            | QP_EX_WITH_BIND_MW,
    ),
    (
        OpGroup::Reliable,
        QP_EX_WITH_RDMA_READ
            | QP_EX_WITH_ATOMIC_CMP_AND_SWP
            | QP_EX_WITH_ATOMIC_FETCH_AND_ADD
            | QP_EX_WITH_SEND_WITH_INV
            | QP_EX_WITH_FLUSH
            | QP_EX_WITH_ATOMIC_WRITE,
    ),
];

impl IbvQpInitAttrEx {
    /// Whether the program may post with `ibv_wr_*`.
    fn is_extended(&self) -> bool {
        self.comp_mask & QP_INIT_ATTR_SEND_OPS_FLAGS != 0
    }

    fn check_extensions(&self) -> Result<(), Errno> {
        let known = QP_INIT_ATTR_PD
            | QP_INIT_ATTR_XRCD
            | QP_INIT_ATTR_CREATE_FLAGS
            | QP_INIT_ATTR_SEND_OPS_FLAGS;
        let refused = Errno::EOPNOTSUPP;
        check_bits("comp_mask", self.comp_mask, known, refused)?;
        check_bits("create_flags", self.create_flags, 0_u32, refused)?;
        if self.is_extended() {
            let kind = qp_kind(self.qp_type)?;
            let supported = SEND_OPS.iter().filter(|(group, _)| kind.supports(*group));
            let known = supported.fold(0, |all, (_, bits)| all | bits);
            check_bits("send_ops_flags", self.send_ops_flags, known, refused)?;
        }
        Ok(())
    }

    /// Creates a QP of attributes that `read_grown` returned, and writes its capacities to `to`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if something is asked for that this device or the kind of QP does not have, `EINVAL` if
    /// an object or a capacity is wrong, and those of [`QpError`](roce_verbs::qp::QpError).
    pub(crate) fn create(
        self,
        context: Handle<IbvContext>,
        to: Out<IbvQpCap>,
    ) -> Result<*mut IbvQp, Errno> {
        self.check_extensions()?;
        let kind = qp_kind(self.qp_type)?;
        let cap = self.capacities(kind)?;
        let state = Arc::clone(&context.get()?.state);
        let (qp, uses) = match kind {
            QpKind::XrcTarget => {
                let xrcd = self.xrcd.get()?;
                xrcd.state.check_same(&state)?;
                (
                    xrcd.domain.create_target().or_errno()?,
                    vec![xrcd.users.add()],
                )
            }
            _ => self.make(kind, &cap, &state)?,
        };
        let (qpn, number) = (qp.qpn(), qp.qpn().get());
        let unacknowledged = Arc::default();
        let made = Handle::into_raw(Qp {
            c: CPart::new(wr::c_part(self.c_part(context, number))),
            qp,
            kind,
            cap,
            signal_all: self.sq_sig_all != 0,
            attr: Mutex::new(IbvQpAttr::zeroed()),
            state: Arc::clone(&state),
            unacknowledged: Arc::clone(&unacknowledged),
            extended: self.is_extended(),
            builder: wr::Builder::new(),
            _uses: uses,
        });
        state.objects.qps.insert(qpn, made, &unacknowledged);
        to.put(cap)?;
        Ok(made)
    }

    /// Creates any QP but an XRC target. Also returns the uses of its PD, CQs and SRQ.
    fn make(
        &self,
        kind: QpKind,
        cap: &IbvQpCap,
        state: &Arc<State>,
    ) -> Result<(QueuePair, Vec<Use>), Errno> {
        let domain = self.pd.get()?;
        let send = self.send_cq.get()?;
        // An XRC initiator receives nothing.
        let recv = match kind {
            QpKind::XrcInitiator => send,
            _ => self.recv_cq.get()?,
        };
        for of in [&domain.state, &send.state, &recv.state] {
            of.check_same(state)?;
        }
        let options = QpOptions {
            kind,
            send_depth: cap.max_send_wr as usize,
            recv_depth: cap.max_recv_wr as usize,
            max_send_sge: cap.max_send_sge as usize,
            max_recv_sge: cap.max_recv_sge as usize,
            // With the extended API, the 8 bytes of an ATOMIC WRITE are always inline.
            max_inline: (cap.max_inline_data as usize).max(if self.is_extended() { 8 } else { 0 }),
            signal_all: self.sq_sig_all != 0,
        };
        let mut uses = vec![domain.users.add(), send.users.add(), recv.users.add()];
        let (send, recv) = (&send.queue, &recv.queue);
        let qp = match self.srq.opt()? {
            Some(srq) => {
                uses.push(srq.users.add());
                let made = domain.pd.create_qp_with_srq(send, recv, &srq.srq, &options);
                made.or_errno()?
            }
            None => domain.pd.create_qp(send, recv, &options).or_errno()?,
        };
        Ok((qp, uses))
    }

    /// The capacities of the queues: those requested, and 0 for a queue that the QP lacks.
    ///
    /// # Errors
    /// `EINVAL` if one exceeds its maximum.
    fn capacities(&self, kind: QpKind) -> Result<IbvQpCap, Errno> {
        let mut cap = self.cap;
        if self.srq.opt()?.is_some() || kind.is_xrc() {
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        }
        if kind == QpKind::XrcTarget {
            (cap.max_send_wr, cap.max_send_sge, cap.max_inline_data) = (0, 0, 0);
        }
        let limits = [
            ("max_send_wr", cap.max_send_wr, MAX_QUEUE_DEPTH),
            ("max_recv_wr", cap.max_recv_wr, MAX_QUEUE_DEPTH),
            ("max_send_sge", cap.max_send_sge, MAX_SGE),
            ("max_recv_sge", cap.max_recv_sge, MAX_SGE),
            ("max_inline_data", cap.max_inline_data, MAX_INLINE_BYTES),
        ];
        match limits.iter().find(|(_, asked, max)| *asked as usize > *max) {
            None => Ok(cap),
            Some((name, asked, max)) => Err(with_reason(Errno::EINVAL, || {
                format!("{name} is {asked}, but must be at most {max}")
            })),
        }
    }

    fn c_part(&self, context: Handle<IbvContext>, number: u32) -> IbvQp {
        IbvQp {
            context,
            qp_context: self.qp_context,
            pd: self.pd,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            handle: number,
            qp_num: number,
            state: QPS_RESET,
            qp_type: self.qp_type,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        }
    }
}

/// `ibv_destroy_qp`. Waits until the QP's events are acknowledged.
pub(crate) extern "C" fn destroy_qp(qp: Handle<IbvQp>) -> c_int {
    guard::errno("ibv_destroy_qp", || {
        let found = qp.get()?;
        let qps = &found.state.objects.qps;
        qps.remove(&found.qp.qpn(), || found.qp.destroy());
        qp.take().map(drop)
    })
}
