//! The end of processes. The first process of a PID namespace inherits all orphans in it, so it
//! waits for any process, and tells those who wait for one.

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How a process ended: its exit code, or 128 and the number of the signal, as shells say it.
pub type ExitCode = u8;

type Waiting = HashMap<Pid, Sender<ExitCode>>;

/// Starts processes, and says when they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Locked while a process starts, so that it does not end unseen.
    waiting: Mutex<Waiting>,
    started: Condvar,
}

impl Reaper {
    /// A thread of this one's waits for the ends of processes as long as this process lives.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let reaper = Self::default();
        let of_thread = reaper.clone();
        std::thread::Builder::new()
            .name("reaper".to_owned())
            .spawn(move || of_thread.run())?;
        Ok(reaper)
    }

    /// Starts a process in the namespaces of the calling thread. The receiver gets its exit code.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<(Pid, Receiver<ExitCode>)> {
        let (sender, receiver) = channel();
        let mut waiting = self.lock();
        let child: Child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        waiting.insert(pid, sender);
        self.shared.started.notify_all();
        Ok((pid, receiver))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        let waiting = self.shared.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            match waitid(Id::All, flags).map(|status| status.pid()) {
                Ok(Some(pid)) => self.reap(pid),
                // It has no child.
                _ => {
                    let waiting = self.lock();
                    let started = self
                        .shared
                        .started
                        .wait_while(waiting, |all| all.is_empty());
                    drop(started);
                }
            }
        }
    }

    fn reap(&self, pid: Pid) {
        let mut waiting = self.lock();
        let code = match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, code)) => code,
            Ok(WaitStatus::Signaled(_, signal, _)) => 128 + signal as i32,
            _ => return,
        };
        if let Some(sender) = waiting.remove(&pid) {
            // Nobody may be interested.
            let _ = sender.send(u8::try_from(code & 0xff).unwrap_or(1));
        }
    }
}
