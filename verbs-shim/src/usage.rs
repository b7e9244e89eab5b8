//! Reference counts: an object in use is not destroyed.

use crate::log;
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

    /// Adds a user if there are fewer than `max`. Two threads that race for the last place may both
    /// be refused.
    ///
    /// # Errors
    /// `ENOMEM`, as for devices whose table is full.
    pub(crate) fn admit(&self, max: usize) -> Result<Use, Errno> {
        let one = self.add();
        // One of the references belongs to the owner.
        if Arc::strong_count(&self.0) - 1 > max {
            return Err(log::refuse(Errno::ENOMEM, || {
                format!("there are {max} already, the most that an open device has")
            }));
        }
        Ok(one)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_admitted_than_there_may_be() {
        let users = Users::default();
        let first = users.admit(2).expect("one of two");
        let second = users.admit(2);
        assert!(second.is_ok());
        assert_eq!(users.admit(2).map(drop), Err(Errno::ENOMEM));
        drop(first);
        assert!(users.admit(2).is_ok(), "the place of the first");
        drop(second);
        assert_eq!(users.check_none(), Ok(()));
    }
}
