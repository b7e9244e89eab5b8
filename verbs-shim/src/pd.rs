//! Protection domains.

use crate::context::State;
use crate::limits::MAX_PDS;
use crate::prelude::*;
use roce_verbs::ProtectionDomain;
use std::ops::Deref;

/// A protection domain, which C may have several pointers to.
#[repr(C)]
pub(crate) struct Pd {
    c: CPart<IbvPd>,
    domain: Arc<Domain>,
}

/// The state shared by all of C's pointers to a domain.
pub(crate) struct Domain {
    pub(crate) pd: ProtectionDomain,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
    handle: u32,
    _counted: Use,
    /// For a parent domain, the PD and thread domain that it was created from.
    parts: Vec<Use>,
}

first_part!(IbvPd => Pd.c);

impl Deref for Pd {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.domain
    }
}

impl Domain {
    /// A user of the parent domain.
    ///
    /// # Errors
    /// `EINVAL` if it is a plain domain.
    pub(crate) fn use_as_parent(&self) -> Result<Use, Errno> {
        match self.parts.is_empty() {
            true => Err(with_reason(Errno::EINVAL, || {
                "parent_domain is a plain domain, and must be one of ibv_alloc_parent_domain"
                    .to_owned()
            })),
            false => Ok(self.users.add()),
        }
    }
}

impl Pd {
    pub(crate) fn context(&self) -> Handle<IbvContext> {
        self.c.get().context
    }

    fn expose(context: Handle<IbvContext>, domain: Arc<Domain>) -> *mut IbvPd {
        let handle = domain.handle;
        Handle::into_raw(Self {
            c: CPart::new(IbvPd { context, handle }),
            domain,
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
    let one = state.counts.pds.try_add(MAX_PDS)?;
    let domain = state.objects.domains.insert(|handle| Domain {
        pd,
        state: Arc::clone(state),
        users: Users::default(),
        handle,
        _counted: one,
        parts: uses,
    });
    Ok(Pd::expose(context, domain))
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
        let domains = &context.get()?.state.objects.domains;
        let found = domains.find(handle).ok_or(Errno::ENOENT)?;
        Ok(Pd::expose(context, found))
    })
}

/// `ibv_unimport_pd`: the domain stays allocated.
pub(crate) extern "C" fn unimport_pd(pd: Handle<IbvPd>) {
    guard::nothing("ibv_unimport_pd", || pd.take().map(drop));
}
