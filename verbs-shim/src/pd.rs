//! Protection domains.

use crate::objects::Domain;
use crate::prelude::*;
use crate::state::State;
use roce_verbs::ProtectionDomain;
use roce_verbs::device::LimitedObject;
use std::ops::Deref;

/// A protection domain, which C may have several pointers to.
#[repr(C)]
pub(crate) struct Pd {
    c: CPart<IbvPd>,
    domain: Arc<Domain>,
    pub(crate) state: Arc<State>,
}

first_part!(IbvPd => Pd.c);

impl Deref for Pd {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.domain
    }
}

impl Pd {
    pub(crate) fn context(&self) -> Handle<IbvContext> {
        self.c.get().context
    }

    fn expose(context: Handle<IbvContext>, domain: Arc<Domain>, state: &Arc<State>) -> *mut IbvPd {
        let handle = domain.handle;
        Handle::into_raw(Self {
            c: CPart::new(IbvPd { context, handle }),
            domain,
            state: Arc::clone(state),
        })
    }
}

pub(crate) extern "C" fn alloc_pd(context: Handle<IbvContext>) -> *mut IbvPd {
    guard::pointer("ibv_alloc_pd", || {
        let state = &context.get()?.state;
        expose(context, state.roce.alloc_pd(), state, Vec::new())
    })
}

/// Creates the C object of a domain.
///
/// # Errors
/// `ENOMEM` if the limit is reached.
pub(crate) fn expose(
    context: Handle<IbvContext>,
    pd: ProtectionDomain,
    state: &Arc<State>,
    uses: Vec<Use>,
) -> Result<*mut IbvPd, Errno> {
    let one = state
        .counts
        .add(LimitedObject::ProtectionDomain)
        .or_errno()?;
    let domain = state.objects.domains.insert(|handle| Domain {
        pd,
        users: Users::default(),
        handle,
        _counted: one,
        parts: uses,
    });
    Ok(Pd::expose(context, domain, state))
}

pub(crate) extern "C" fn dealloc_pd(pd: Handle<IbvPd>) -> c_int {
    guard::errno("ibv_dealloc_pd", || {
        let found = pd.get()?;
        found.users.check_none()?;
        found.state.objects.domains.remove(found.handle);
        pd.take().map(drop)
    })
}

/// `ibv_import_pd`: a domain of this context, or of the one it was imported from.
pub(crate) extern "C" fn import_pd(context: Handle<IbvContext>, handle: u32) -> *mut IbvPd {
    guard::pointer("ibv_import_pd", || {
        let state = &context.get()?.state;
        let found = state.objects.domains.find(handle);
        Ok(Pd::expose(context, found.ok_or(Errno::ENOENT)?, state))
    })
}

/// `ibv_unimport_pd`: the domain stays allocated.
pub(crate) extern "C" fn unimport_pd(pd: Handle<IbvPd>) {
    guard::nothing("ibv_unimport_pd", || pd.take().map(drop));
}
