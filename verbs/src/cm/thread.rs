//! The connection manager's thread.

use super::core::Core;
use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts it. It ends when the bell says so.
pub(super) fn spawn(core: Arc<Core>) -> io::Result<JoinHandle<()>> {
    // Threads inherit the mask: none of the application's signals may land here.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new()
        .name("roce-cm".to_owned())
        .spawn(move || run(&core));
    before.thread_set_mask()?;
    thread
}

fn run(core: &Core) {
    while let Some(work) = core.bell().wait(|| core.now()) {
        if work.agent {
            core.work();
        }
        for event in work.events {
            if core.bell().is_stopped() {
                return;
            }
            core.tell(event);
        }
    }
}
