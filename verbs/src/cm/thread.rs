//! The connection manager's thread.

use super::bell::Next;
use super::core::Core;
use super::lookout::Lookout;
use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts the thread, which runs until the bell is stopped.
pub(super) fn spawn(core: Arc<Core>, interface_index: u32) -> io::Result<JoinHandle<()>> {
    // Threads inherit the signal mask. This one must not take the application's signals.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new()
        .name("roce-cm".to_owned())
        .spawn(move || run(&core, &mut Lookout::new(interface_index)));
    before.thread_set_mask()?;
    thread
}

fn run(core: &Core, lookout: &mut Lookout) {
    loop {
        match core.bell().next(core.now()) {
            Next::Stop => return,
            Next::Leave => {
                core.forget_all();
                core.bell().left();
            }
            Next::Sleep(timeout) => {
                lookout.sleep(core.bell(), timeout);
                core.bell().clear();
                lookout.report(core);
            }
            Next::Work(work) => {
                if work.agent {
                    work_off(core, lookout);
                }
                for event in work.events {
                    if core.bell().is_stopped() {
                        return;
                    }
                    core.deliver(event);
                }
            }
        }
    }
}

/// Hands the agent the datagrams that have arrived, and lets it handle its timeouts.
fn work_off(core: &Core, lookout: &mut Lookout) {
    // A new process may have the QP numbers of one that ended. The new process's datagrams may be
    // among these, and must not be taken for the old one's, so the agent first learns which
    // processes ended.
    let came = core.take_mads();
    lookout.report(core);
    core.work(&came);
    lookout.follow(core.peers_and_checks());
}
