//! What a key of a flow's target grants.

use super::memory::REGION_ACCESS;
use roce_stack::Access;

/// What a key of a flow's target grants now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) access: Access,
    /// Whether the region is in the protection domain of the QP.
    pub(super) own_pd: bool,
    /// The address of the region before it was moved to another one.
    pub(super) stale_iova: Option<u64>,
}

impl Default for Grant {
    fn default() -> Self {
        Self {
            access: REGION_ACCESS,
            own_pd: true,
            stale_iova: None,
        }
    }
}
