//! The connection manager's thread.

use super::core::Core;
use super::inbox::Next;
use super::peer_monitor::PeerMonitor;
use roce_trust::signals;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Starts the thread, which runs until the inbox is stopped.
pub(super) fn spawn(core: Arc<Core>, interface_index: u32) -> io::Result<JoinHandle<()>> {
    let thread = Builder::new().name("roce-cm".to_owned());
    signals::spawn(thread, move || {
        run(&core, &mut PeerMonitor::new(interface_index));
    })
}

fn run(core: &Core, peer_monitor: &mut PeerMonitor) {
    loop {
        match core.inbox().next(core.now()) {
            Next::Stop => return,
            Next::NotifyPeers => {
                core.forget_all();
                core.inbox().set_peers_notified();
            }
            Next::Sleep(timeout) => {
                peer_monitor.sleep(core.inbox(), timeout);
                core.inbox().clear();
                peer_monitor.report(core);
            }
            Next::Work { call_agent, events } => {
                if call_agent {
                    run_agent(core, peer_monitor);
                }
                for event in events {
                    if core.inbox().is_stopped() {
                        return;
                    }
                    core.deliver(event);
                }
            }
        }
    }
}

/// Hands the agent the datagrams that have arrived, and lets it handle its timeouts.
fn run_agent(core: &Core, peer_monitor: &mut PeerMonitor) {
    // A new process may have the QP numbers of a process that has ended, and its datagrams may be
    // among these. The agent must not attribute them to the old process, so it first learns which
    // processes have ended.
    let mads = core.take_mads();
    peer_monitor.report(core);
    core.handle_mads(&mads);
    peer_monitor.start_watching(core, core.peers_and_checks());
}
