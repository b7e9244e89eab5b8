//! Looks at the program while it runs: prints the report of a program that goes on after a failure, and
//! remembers its devices, which are gone when it has ended.

use super::report::Report;
use crate::process::parent_of;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use roce_verbs::observation::{DeviceSnapshot, WaitSnapshot, watch_processes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The pauses between looks grow from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long the program's processes may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest number of parents between a process and this one.
const GENERATIONS: usize = 32;

/// The program's processes, as they were last seen.
#[derive(Default)]
pub(super) struct Seen {
    /// The devices, by process and context.
    pub(super) devices: BTreeMap<(u32, u64), DeviceSnapshot>,
    /// The events and answers that each process waits for.
    pub(super) waits: BTreeMap<u32, Vec<WaitSnapshot>>,
}

/// The thread that looks.
pub(super) struct Watcher {
    /// Asks it to look at once, and to drop this sender when it has; closed to stop it.
    looks: Sender<Sender<()>>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    /// Starts; `None` if there can be no thread. Then, the report is printed at the end only.
    pub(super) fn start(report: Arc<Report>) -> Option<Self> {
        let (looks, wanted) = channel();
        // All signals are for the thread that waits for the program.
        let mut before = SigSet::empty();
        let block = SigmaskHow::SIG_SETMASK;
        pthread_sigmask(block, Some(&SigSet::all()), Some(&mut before)).ok()?;
        let name = "roce-why".to_owned();
        let thread = Builder::new()
            .name(name)
            .spawn(move || watch(&wanted, &report));
        pthread_sigmask(block, Some(&before), None).ok()?;
        Some(Self {
            looks,
            thread: thread.ok()?,
        })
    }

    /// Looks before this returns, unless the program's processes do not answer.
    pub(super) fn look_now(&self) {
        let (looks, looked) = channel();
        if self.looks.send(looks).is_ok() {
            let _ = looked.recv_timeout(PATIENCE * 2);
        }
    }

    /// Stops, and returns what was last seen.
    pub(super) fn stop(self) -> Seen {
        drop(self.looks);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(wanted: &Receiver<Sender<()>>, report: &Report) -> Seen {
    let mut seen = Seen::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let want = wanted.recv_timeout(pause);
        if let Err(RecvTimeoutError::Disconnected) = want {
            return seen;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        report.print_if_settled();
        look(&mut seen);
        drop(want);
    }
}

fn look(seen: &mut Seen) {
    // If the kernel does not list sockets, there is nothing to remember.
    let Ok(found) = watch_processes(PATIENCE) else {
        return;
    };
    for process in found.snapshots {
        if is_ours(process.pid) {
            let of = process.devices.into_iter();
            let keyed = of.map(|device| ((process.pid, device.context), device));
            seen.devices.extend(keyed);
            seen.waits.insert(process.pid, process.waits);
        }
    }
}

/// Whether a process descends from this one.
fn is_ours(pid: u32) -> bool {
    let own = std::process::id();
    let parents = std::iter::successors(Some(pid), |pid| parent_of(*pid));
    parents.take(GENERATIONS).any(|pid| pid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_its_own_and_its_parent_is_not() {
        assert!(is_ours(std::process::id()));
        let parent = std::os::unix::process::parent_id();
        assert!(!is_ours(parent));
    }
}
