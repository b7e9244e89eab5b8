//! Faults of the calls of the C API.

use super::strike::die;
use super::{CallFault, Judge, What};
use std::sync::Arc;

/// Decides which calls of the C API fail. For the library that has these calls.
#[derive(Debug)]
pub struct CallJudge(Arc<Judge>);

impl CallJudge {
    /// The judge of the calls that `ROCE_FAULTS` is about; `None` if it is about none. If it is
    /// malformed, opening a device reports that.
    pub fn of_environment() -> Option<Self> {
        let judge = Judge::of_environment().ok()??;
        judge
            .has(|what| matches!(what, What::Call(..)))
            .then_some(Self(judge))
    }

    /// A call begins. `name` is its name, with `ibv_` or `rdma_`. A slow call waits here, and one
    /// that kills the process does not return.
    ///
    /// # Errors
    /// The `errno` with which the call fails, instead of doing anything.
    pub fn begin(&self, name: &str) -> Result<(), i32> {
        let name = name.strip_prefix("ibv_").unwrap_or(name);
        // The functions that `ibv_reg_mr` in C becomes.
        let name = match name {
            "reg_mr_iova" | "reg_mr_iova2" => "reg_mr",
            name => name,
        };
        let fault = self.0.strike(|injection| match injection.what {
            What::Call(call, fault) if call.name() == name => Some(fault),
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
