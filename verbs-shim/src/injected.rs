//! Fault injection: calls that fail, wait or kill the process because `ROCE_FAULTS` says so.

use crate::log;
use nix::errno::Errno;
use roce_verbs::faults::CallJudge;
use std::cell::Cell;
use std::hint::cold_path;
use std::sync::LazyLock;

static JUDGE: LazyLock<Option<CallJudge>> = LazyLock::new(CallJudge::from_environment);

thread_local! {
    /// The number of calls that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A call that runs. Calls of this library within it are not the program's own, and no order is about
/// them.
pub(crate) struct Entered {
    counts: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.counts {
            let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
        }
    }
}

/// Begins a call. `call` is the C name of the function.
///
/// # Errors
/// The error that was injected: the call must do nothing then.
#[inline]
pub(crate) fn enter(call: &'static str) -> Result<Entered, Errno> {
    match &*JUDGE {
        None => Ok(Entered { counts: false }),
        Some(judge) => {
            cold_path();
            enter_judged(judge, call)
        }
    }
}

fn enter_judged(judge: &CallJudge, call: &'static str) -> Result<Entered, Errno> {
    // The storage is gone in a thread that is exiting.
    let Ok(outer) = DEPTH.try_with(Cell::get) else {
        return Ok(Entered { counts: false });
    };
    if outer == 0 {
        judge.begin(call).map_err(|errno| {
            let errno = Errno::from_raw(errno);
            log::with_reason(errno, || "ROCE_FAULTS injected this failure".to_owned())
        })?;
    }
    let counts = DEPTH.try_with(|depth| depth.set(outer + 1)).is_ok();
    Ok(Entered { counts })
}
