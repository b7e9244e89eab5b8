//! Faults of C API calls.

use crate::strike::die;
use crate::{CallFault, Judge, Target};
use std::sync::Arc;

/// Decides which C API calls fail. For the library that exports them.
#[derive(Debug)]
pub struct CallJudge(Arc<Judge>);

impl CallJudge {
    /// The judge for the calls that `ROCE_FAULTS` names; `None` if it names none. A malformed value is
    /// reported when a device is opened.
    pub fn from_environment() -> Option<Self> {
        let judge = Judge::from_environment().ok()??;
        judge
            .has(|what| matches!(what, Target::Call(..)))
            .then_some(Self(judge))
    }

    /// Called first in each C call. `name` includes `ibv_` or `rdma_`. Sleeps if the call is to be slow,
    /// and does not return if it is to kill the process.
    ///
    /// # Errors
    /// The `errno` that the call must fail with, without doing anything.
    pub fn begin(&self, name: &str) -> Result<(), i32> {
        let name = name.strip_prefix("ibv_").unwrap_or(name);
        // In C, `ibv_reg_mr` is a macro that calls these.
        let name = match name {
            "reg_mr_iova" | "reg_mr_iova2" => "reg_mr",
            name => name,
        };
        let fault = self.0.strike(|injection| match injection.what {
            Target::Call(call, fault) if call.name() == name => Some(fault),
            _ => None,
        });
        match fault {
            None => Ok(()),
            Some(CallFault::Error(errno)) => Err(errno),
            Some(CallFault::Slow(time)) => {
                std::thread::sleep(time);
                Ok(())
            }
            Some(CallFault::Die) => die(),
        }
    }
}
