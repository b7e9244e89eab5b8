//! Completion counters, since rdma-core 65.

use crate::prelude::*;
use crate::state::State;
use roce_verbs::completion::{CompletionCounter, CountedOps, CounterUnit};
use roce_verbs::device::{CountedObject, LimitedObject};

#[repr(C)]
pub(crate) struct CompCntr {
    _c: CPart<IbvCompCntr>,
    counter: CompletionCounter,
    state: Arc<State>,
    _counted: CountedObject,
}

first_part!(IbvCompCntr => CompCntr._c);

/// `_ibv_query_comp_cntr_caps`, which `ibv_query_comp_cntr_caps` of the header calls.
pub(crate) extern "C" fn query_comp_cntr_caps(
    context: Handle<IbvContext>,
    caps: Out<IbvCompCntrCaps>,
    size: usize,
) -> c_int {
    guard::errno("ibv_query_comp_cntr_caps", || {
        context.get()?;
        if size < size_of::<IbvCompCntrCaps>() {
            return Err(Errno::EINVAL);
        }
        let known = IbvCompCntrCaps {
            max_value: u64::MAX,
            max_counters: LimitedObject::CompletionCounter.max() as u32,
            supported_qp_attach_ops: CountedOps::all().bits(),
        };
        caps.put_prefix(&known, size)
    })
}

pub(crate) extern "C" fn create_comp_cntr(
    context: Handle<IbvContext>,
    attr: In<IbvCompCntrInitAttr>,
) -> *mut IbvCompCntr {
    guard::pointer("ibv_create_comp_cntr", || {
        let (state, attr) = (&context.get()?.state, attr.read()?);
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EOPNOTSUPP)?;
        check_bits("flags", attr.flags, 0_u32, Errno::EOPNOTSUPP)?;
        check_bits("type", attr.kind, COMP_CNTR_TYPE_BYTES, Errno::EOPNOTSUPP)?;
        let unit = match attr.kind {
            COMP_CNTR_TYPE_BYTES => CounterUnit::Bytes,
            _ => CounterUnit::Requests,
        };
        Ok(Handle::into_raw(CompCntr {
            _counted: state
                .counts
                .add(LimitedObject::CompletionCounter)
                .or_errno()?,
            _c: CPart::new(IbvCompCntr { context, handle: 0 }),
            counter: state.roce.create_counter(unit),
            state: Arc::clone(state),
        }))
    })
}

pub(crate) extern "C" fn destroy_comp_cntr(counter: Handle<IbvCompCntr>) -> c_int {
    guard::errno("ibv_destroy_comp_cntr", || {
        if counter.get()?.counter.is_attached() {
            let why = || "a QP uses it: destroy the QP first".to_owned();
            return Err(with_reason(Errno::EBUSY, why));
        }
        counter.take().map(drop)
    })
}

pub(crate) extern "C" fn qp_attach_comp_cntr(
    qp: Handle<IbvQp>,
    counter: Handle<IbvCompCntr>,
    attr: In<IbvQpAttachCompCntrAttr>,
) -> c_int {
    guard::errno("ibv_qp_attach_comp_cntr", || {
        let (qp, found, attr) = (qp.get()?, counter.get()?, attr.read()?);
        qp.state.check_same(&found.state)?;
        check_bits("comp_mask", attr.comp_mask, 0_u32, Errno::EOPNOTSUPP)?;
        let (ops, known) = (attr.op_mask, CountedOps::all().bits());
        check_bits("op_mask", ops, known, Errno::EOPNOTSUPP)?;
        let ops = CountedOps::from_bits_retain(ops);
        qp.qp.attach_counter(&found.counter, ops).or_errno()
    })
}

/// Defines the functions that change one of the numbers.
macro_rules! changes {
    ($($name:ident: $call:literal calls $method:ident;)*) => {$(
        pub(crate) extern "C" fn $name(counter: Handle<IbvCompCntr>, value: u64) -> c_int {
            guard::errno($call, || {
                counter.get()?.counter.$method(value);
                Ok(())
            })
        }
    )*};
}

changes! {
    set_comp_cntr: "ibv_set_comp_cntr" calls set_succeeded;
    set_err_comp_cntr: "ibv_set_err_comp_cntr" calls set_failed;
    inc_comp_cntr: "ibv_inc_comp_cntr" calls add_succeeded;
    inc_err_comp_cntr: "ibv_inc_err_comp_cntr" calls add_failed;
}

pub(crate) extern "C" fn read_comp_cntr(counter: Handle<IbvCompCntr>, to: Out<u64>) -> c_int {
    guard::errno("ibv_read_comp_cntr", || {
        to.put(counter.get()?.counter.succeeded())
    })
}

pub(crate) extern "C" fn read_err_comp_cntr(counter: Handle<IbvCompCntr>, to: Out<u64>) -> c_int {
    guard::errno("ibv_read_err_comp_cntr", || {
        to.put(counter.get()?.counter.failed())
    })
}
