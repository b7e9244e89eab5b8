//! Shared receive queues.

use crate::prelude::*;
use crate::qp::each_recv;
use crate::state::State;
use roce_verbs::device::Unacknowledged;
use roce_verbs::qp::{SharedReceiveQueue, SrqAttributes, SrqOptions};
use std::mem::offset_of;

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    c: CPart<IbvSrq>,
    pub(crate) srq: SharedReceiveQueue,
    state: Arc<State>,
    /// Events that the program has not acknowledged yet.
    pub(crate) unacknowledged: Arc<Unacknowledged>,
    pub(crate) users: Users,
    _uses: Vec<Use>,
}

first_part!(IbvSrq => Srq.c);

impl Srq {
    /// Acknowledges one of the queue's events, and counts it in `ibv_srq.events_completed`, which
    /// programs read.
    pub(crate) fn acknowledge(&self) {
        self.c.count(offset_of!(IbvSrq, events_completed), 1);
        self.unacknowledged.acknowledge(1);
    }
}

fn options(attr: &IbvSrqAttr) -> SrqOptions {
    SrqOptions {
        depth: attr.max_wr as usize,
        max_sge: attr.max_sge as usize,
    }
}

fn expose(
    pd: Handle<IbvPd>,
    srq_context: *mut c_void,
    srq: SharedReceiveQueue,
    uses: Vec<Use>,
) -> Result<*mut IbvSrq, Errno> {
    let domain = pd.get()?;
    let number = srq.number();
    let state = Arc::clone(&domain.state);
    let unacknowledged = Arc::default();
    let made = Handle::into_raw(Srq {
        c: CPart::new(IbvSrq {
            context: domain.context(),
            srq_context,
            pd,
            handle: number.get(),
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        }),
        srq,
        state: Arc::clone(&state),
        unacknowledged: Arc::clone(&unacknowledged),
        users: Users::default(),
        _uses: uses,
    });
    state.objects.srqs.insert(number, made, &unacknowledged);
    Ok(made)
}

pub(crate) extern "C" fn create_srq(pd: Handle<IbvPd>, attr: In<IbvSrqInitAttr>) -> *mut IbvSrq {
    guard::pointer("ibv_create_srq", || {
        let IbvSrqInitAttr { srq_context, attr } = attr.read()?;
        let domain = pd.get()?;
        let srq = domain.pd.create_srq(&options(&attr)).or_errno()?;
        expose(pd, srq_context, srq, vec![domain.users.add()])
    })
}

pub(crate) extern "C" fn create_srq_ex(
    context: Handle<IbvContext>,
    attr: Out<IbvSrqInitAttrEx>,
) -> *mut IbvSrq {
    guard::pointer("ibv_create_srq_ex", || {
        context.get()?;
        attr.input().read_grown()?.create(context)
    })
}

impl IbvSrqInitAttrEx {
    /// As `ibv_create_srq_ex`, of attributes that `read_grown` returned.
    pub(crate) fn create(&self, context: Handle<IbvContext>) -> Result<*mut IbvSrq, Errno> {
        let state = &context.get()?.state;
        let known = SRQ_INIT_ATTR_TYPE | SRQ_INIT_ATTR_PD | SRQ_INIT_ATTR_XRCD | SRQ_INIT_ATTR_CQ;
        check_bits("comp_mask", self.comp_mask, known, Errno::EOPNOTSUPP)?;
        let domain = self.pd.get()?;
        domain.state.check_same(state)?;
        let mut uses = vec![domain.users.add()];
        let srq = match self.srq_type {
            SRQT_BASIC => domain.pd.create_srq(&options(&self.attr)).or_errno()?,
            SRQT_XRC => {
                let (xrcd, cq) = (self.xrcd.get()?, self.cq.get()?);
                cq.state.check_same(state)?;
                xrcd.state.check_same(state)?;
                uses.extend([xrcd.users.add(), cq.users.add()]);
                let options = options(&self.attr);
                let made = xrcd.domain.create_srq(&domain.pd, &cq.queue, &options);
                made.or_errno()?
            }
            // An SRQ for tag matching.
            _ => return Err(Errno::EOPNOTSUPP),
        };
        expose(self.pd, self.srq_context, srq, uses)
    }
}

pub(crate) extern "C" fn modify_srq(
    srq: Handle<IbvSrq>,
    attr: In<IbvSrqAttr>,
    mask: c_int,
) -> c_int {
    guard::errno("ibv_modify_srq", || {
        let attr = attr.read()?;
        let mask = mask.cast_unsigned();
        check_bits("srq_attr_mask", mask, SRQ_MAX_WR | SRQ_LIMIT, Errno::EINVAL)?;
        let given = |bit, value: u32| (mask & bit != 0).then_some(value as usize);
        let changes = SrqAttributes {
            depth: given(SRQ_MAX_WR, attr.max_wr),
            limit: given(SRQ_LIMIT, attr.srq_limit),
        };
        srq.get()?.srq.modify(&changes).or_errno()
    })
}

pub(crate) extern "C" fn query_srq(srq: Handle<IbvSrq>, attr: Out<IbvSrqAttr>) -> c_int {
    guard::errno("ibv_query_srq", || {
        let status = srq.get()?.srq.query().or_errno()?;
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        attr.put(IbvSrqAttr {
            max_wr: number(status.size.depth),
            max_sge: number(status.size.max_sge),
            srq_limit: number(status.limit),
        })
    })
}

pub(crate) extern "C" fn get_srq_num(srq: Handle<IbvSrq>, number: Out<u32>) -> c_int {
    guard::errno("ibv_get_srq_num", || {
        number.put(srq.get()?.srq.number().get())
    })
}

/// `ibv_destroy_srq`. Waits until the queue's events are acknowledged.
pub(crate) extern "C" fn destroy_srq(srq: Handle<IbvSrq>) -> c_int {
    guard::errno("ibv_destroy_srq", || {
        let found = srq.get()?;
        found.users.check_none()?;
        let srqs = &found.state.objects.srqs;
        srqs.remove(&found.srq.number(), || found.srq.end_events());
        srq.take().map(drop)
    })
}

pub(crate) extern "C" fn post_srq_recv(
    srq: Handle<IbvSrq>,
    first: In<IbvRecvWr>,
    bad: Out<In<IbvRecvWr>>,
) -> c_int {
    let work = || {
        let srq = &srq.get()?.srq;
        each_recv(first, bad, |request| srq.post_recv(request).or_errno())
    };
    guard::post("ibv_post_srq_recv", work, || bad.put_if_not_null(first))
}
