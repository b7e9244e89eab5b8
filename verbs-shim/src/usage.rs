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

    /// Adds a user if there are fewer than `max`. If two threads race for the last place, both may
    /// fail.
    ///
    /// # Errors
    /// `ENOMEM` if there are `max` users, as with a device whose table is full.
    pub(crate) fn try_add(&self, max: usize) -> Result<Use, Errno> {
        let one = self.add();
        // One of the references belongs to the owner.
        if Arc::strong_count(&self.0) - 1 > max {
            return Err(log::with_reason(Errno::ENOMEM, || {
                format!("{max} objects of this kind exist, which is the maximum of an open device")
            }));
        }
        Ok(one)
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
    fn no_more_are_admitted_than_there_may_be() {
        let users = Users::default();
        let first = users.try_add(2).expect("one of two");
        let second = users.try_add(2);
        assert!(second.is_ok());
        assert_eq!(users.try_add(2).map(drop), Err(Errno::ENOMEM));
        drop(first);
        assert!(users.try_add(2).is_ok(), "the place of the first");
        assert_eq!(users.check_none(), Err(Errno::EBUSY));
        drop(second);
        assert_eq!(users.check_none(), Ok(()));
    }
}
