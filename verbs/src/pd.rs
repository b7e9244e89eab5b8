//! Protection domains.

use crate::context::Context;
use roce_stack::PdId;

/// What ties QPs to the memory that they may use. Cheap to clone.
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
