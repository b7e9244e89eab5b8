//! Thread domains, and parent domains.

use crate::pd;
use crate::prelude::*;

/// A thread domain. The program promises to use its objects from one thread at a time; this library
/// does not make use of that.
#[repr(C)]
pub(crate) struct Td {
    c: CPart<IbvTd>,
    pub(crate) users: Users,
}

first_part!(IbvTd => Td.c);

pub(crate) extern "C" fn alloc_td(context: Handle<IbvContext>, attr: In<u32>) -> *mut IbvTd {
    guard::pointer("ibv_alloc_td", || {
        context.get()?;
        check_bits("comp_mask", *attr.get()?, 0_u32, Errno::EINVAL)?;
        Ok(Handle::into_raw(Td {
            c: CPart::new(IbvTd { context }),
            users: Users::default(),
        }))
    })
}

pub(crate) extern "C" fn dealloc_td(td: Handle<IbvTd>) -> c_int {
    guard::errno("ibv_dealloc_td", || {
        td.get()?.users.check_none()?;
        td.take().map(drop)
    })
}

/// The accepted options of a parent domain: allocators for a driver's internal structures, which
/// this library never calls, and their context; and that buffers need not be protected in a
/// confidential machine, where this library needs no buffers that a device can read.
const KNOWN: u32 = PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
    | PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
    | PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;

pub(crate) extern "C" fn alloc_parent_domain(
    context: Handle<IbvContext>,
    attr: In<IbvParentDomainInitAttr>,
) -> *mut IbvPd {
    guard::pointer("ibv_alloc_parent_domain", || {
        let state = &context.get()?.state;
        let attr = attr.read_grown()?;
        check_bits("comp_mask", attr.comp_mask, KNOWN, Errno::EINVAL)?;
        let (parent, td) = (attr.pd.get()?, attr.td.opt()?);
        parent.state.check_same(state)?;
        if let Some(td) = td {
            td.c.get().context.get()?.state.check_same(state)?;
        }
        let uses = std::iter::once(&parent.users).chain(td.map(|td| &td.users));
        let uses = uses.map(Users::add).collect();
        pd::expose(context, parent.pd.clone(), state, uses)
    })
}
