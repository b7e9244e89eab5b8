//! Protection domains.

use crate::context::Context;
use roce_stack::PdId;

/// A protection domain. A QP may use only memory of its own domain. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    pub(crate) context: Context,
    pub(crate) id: PdId,
}

impl Context {
    /// A new protection domain.
    pub fn alloc_pd(&self) -> ProtectionDomain {
        ProtectionDomain {
            context: self.clone(),
            id: self.inner.shared.lock().nic.alloc_pd(),
        }
    }
}
