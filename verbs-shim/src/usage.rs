//! Reference counts. An object in use can't be destroyed.

use crate::log;
use nix::errno::Errno;
use std::sync::Arc;

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
        let busy = |reason| Err(log::with_reason(Errno::EBUSY, || reason));
        match Arc::strong_count(&self.0) - 1 {
            0 => Ok(()),
            1 => busy("another object still uses it: destroy that one first".to_owned()),
            users => busy(format!("{users} objects still use it: destroy those first")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_busy_while_it_has_users() {
        let users = Users::default();
        assert_eq!(users.check_none(), Ok(()));
        let (first, second) = (users.add(), users.add());
        assert_eq!(users.check_none(), Err(Errno::EBUSY));
        drop(first);
        assert_eq!(users.check_none(), Err(Errno::EBUSY));
        drop(second);
        assert_eq!(users.check_none(), Ok(()));
    }
}
