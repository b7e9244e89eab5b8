//! The end of processes. The first process of a PID namespace inherits all orphans in it, so it
//! waits for any process, and tells those who wait for one.

use nix::errno::Errno;
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
            match ended() {
                Ok(pid) => self.reap(pid),
                Err(Errno::EINTR) => {}
                // It has no child.
                Err(_) => {
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
        let Ok(code) = exit_code(pid) else { return };
        if let Some(sender) = waiting.remove(&pid) {
            // Nobody may be interested.
            let _ = sender.send(code);
        }
    }
}

/// Waits until any child has ended, and leaves it for [`exit_code`]. (`nix` has no value for a child
/// that was killed by a real-time signal.)
fn ended() -> nix::Result<Pid> {
    // SAFETY: every bit pattern is a value of this type.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: it points to a value that lives for the call.
    Errno::result(unsafe { libc::waitid(libc::P_ALL, 0, &raw mut found, flags) })?;
    // SAFETY: the call has filled in the fields of SIGCHLD.
    Ok(Pid::from_raw(unsafe { found.si_pid() }))
}

/// How a child ended.
fn exit_code(pid: Pid) -> nix::Result<ExitCode> {
    let mut status = 0;
    // SAFETY: it points to a value that lives for the call.
    Errno::result(unsafe { libc::waitpid(pid.as_raw(), &raw mut status, 0) })?;
    let code = match libc::WIFSIGNALED(status) {
        true => 128 + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    };
    Ok(u8::try_from(code & 0xff).unwrap_or(1))
}
