//! What the first process of a cluster changes of itself, and gives back to programs; and the
//! signals that it gets for its program.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::unistd::{Pid, setsid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Signals that the program gets in the place of this process, for which they would do nothing: it
/// is the first one of a PID namespace.
const FORWARDED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
];

/// The state of this process before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    blocked: SigSet,
    /// The limits of descriptors, soft and hard.
    descriptors: (rlim_t, rlim_t),
}

impl Inherited {
    /// Blocks the signals that [`forward`] waits for, and allows as many descriptors as the system
    /// does: each host and each request needs some. To be called before there are other threads.
    pub(crate) fn take() -> io::Result<Self> {
        let forwarded: SigSet = FORWARDED.into_iter().collect();
        let mut blocked = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&forwarded), Some(&mut blocked))?;
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, descriptors.1, descriptors.1)?;
        Ok(Self {
            blocked,
            descriptors,
        })
    }

    /// Gives it back to the program that the command starts.
    pub(crate) fn give_to(self, command: &mut Command, session: Session) {
        let begin = move || {
            if session == Session::Own {
                setsid()?;
            }
            let (soft, hard) = self.descriptors;
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.blocked), None)?;
            Ok(())
        };
        // SAFETY: between fork and exec, it makes nothing but system calls.
        unsafe { command.pre_exec(begin) };
    }
}

/// The session of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// That of this process, with its terminal.
    Shared,
    /// Its own. A terminal that it reads from is not its own, and so does not stop it for reading
    /// in the background.
    Own,
}

/// Forwards signals that other processes send to this one, as long as it lives. The program gets
/// those of the terminal itself.
pub(crate) fn forward(program: Pid) {
    let forwarded: SigSet = FORWARDED.into_iter().collect();
    loop {
        // SAFETY: every bit pattern is a value of this type.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both point to values that live for the call.
        let found = unsafe { libc::sigwaitinfo(forwarded.as_ref(), &raw mut info) };
        match Errno::result(found) {
            Ok(signal) if info.si_code <= 0 => {
                // SAFETY: it sends a signal. The program may have ended, and then this process
                // ends, too.
                let _ = unsafe { libc::kill(program.as_raw(), signal) };
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}
