//! The connection manager's thread.

use super::bell::Next;
use super::core::Core;
use super::lookout::Lookout;
use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts it. It ends when the bell says so.
pub(super) fn spawn(core: Arc<Core>, interface_index: u32) -> io::Result<JoinHandle<()>> {
    // Threads inherit the mask: none of the application's signals may land here.
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

/// Hands the agent what has come, and lets it do what is due.
fn work_off(core: &Core, lookout: &mut Lookout) {
    // A process that ends makes room for others. What those have sent may be among this, and
    // must not be taken for the dead one's: its end comes first.
    let came = core.take_mads();
    lookout.report(core);
    core.work(&came);
    lookout.follow(core.peers_and_checks());
}
