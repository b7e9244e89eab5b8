//! Protection domains.

use crate::abi::IbvPd;
use crate::context::{Context, State};
use crate::guard;
use crate::pointer::{CPart, Handle, Object};
use crate::usage::{Use, Users};
use roce_verbs::ProtectionDomain;
use std::ffi::c_int;
use std::sync::Arc;

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    c: CPart<IbvPd>,
    pub(crate) pd: ProtectionDomain,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
    /// Of a parent domain: what it stands for.
    _uses: Vec<Use>,
}

// SAFETY: `c` is the first field.
unsafe impl Object for Pd {
    type C = IbvPd;
}

impl Pd {
    pub(crate) fn context(&self) -> Handle<Context> {
        self.c.get().context
    }
}

/// `ibv_alloc_pd`.
pub(crate) extern "C" fn alloc_pd(context: Handle<Context>) -> *mut IbvPd {
    guard::pointer(|| {
        let state = &context.get()?.state;
        Ok(give(context, state.roce.alloc_pd(), state, Vec::new()))
    })
}

/// Makes a domain one of C's.
pub(crate) fn give(
    context: Handle<Context>,
    pd: ProtectionDomain,
    state: &Arc<State>,
    uses: Vec<Use>,
) -> *mut IbvPd {
    Handle::give(Pd {
        c: CPart::new(IbvPd { context, handle: 0 }),
        pd,
        state: Arc::clone(state),
        users: Users::default(),
        _uses: uses,
    })
}

/// `ibv_dealloc_pd`.
pub(crate) extern "C" fn dealloc_pd(pd: Handle<Pd>) -> c_int {
    guard::errno(|| {
        pd.get()?.users.check_none()?;
        pd.take().map(drop)
    })
}
