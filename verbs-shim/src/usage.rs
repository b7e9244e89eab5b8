//! Who uses an object: what is in use is not destroyed.

use nix::errno::Errno;
use std::sync::Arc;

/// Counts the users of an object.
#[derive(Debug, Default)]
pub(crate) struct Users(Arc<()>);

/// One user of an object, until it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Use(#[expect(dead_code, reason = "its count is what matters")] Arc<()>);

impl Users {
    pub(crate) fn add(&self) -> Use {
        Use(Arc::clone(&self.0))
    }

    /// # Errors
    /// `EBUSY` if there are any.
    pub(crate) fn check_none(&self) -> Result<(), Errno> {
        if Arc::strong_count(&self.0) == 1 {
            Ok(())
        } else {
            Err(Errno::EBUSY)
        }
    }
}
