//! A parent that is transparent to its program.
//!
//! `roce run` waits for the program only if it has to report something at the end. The program
//! stays in the process group and the terminal of this process:
//!
//! - signals from the terminal (Ctrl-C, Ctrl-Z) reach both anyway, so they are not forwarded;
//! - signals from other processes are forwarded to the program;
//! - when the program stops, this process stops, so that a shell sees it; when it is continued, it
//!   continues the program;
//! - when this process is killed, the program is, too.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask, raise};
use nix::unistd::{ForkResult, Pid, fork, pipe2};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// With an exit code.
    Code(u8),
    /// By the signal of this number, which may be a real-time signal.
    Signal(i32),
}

impl ProgramEnd {
    /// How a process ended whose status is `status`, if it has.
    fn of(status: i32) -> Option<Self> {
        if libc::WIFEXITED(status) {
            let code = libc::WEXITSTATUS(status);
            return Some(Self::Code(u8::try_from(code & 0xff).unwrap_or(1)));
        }
        libc::WIFSIGNALED(status).then(|| Self::Signal(libc::WTERMSIG(status)))
    }

    /// The exit code of this process, which a signal ends as it has ended the program.
    pub(crate) fn repeat(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(signal) => {
                die_by_signal(signal);
                // The shell's convention, in case this process survives the signal.
                ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX)))
            }
        }
    }
}

/// Signals that a fault of this process raises, and those that can't be caught.
const NOT_FORWARDED: [Signal; 7] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
];

/// Signals by which users end programs.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Starts a program and waits for its end. Calls `may_end` before it forwards a signal
/// that ends most programs.
pub(super) fn run(mut command: Command, may_end: &mut dyn FnMut()) -> io::Result<ProgramEnd> {
    let masks = Masks::block()?;
    // SAFETY: between fork and exec, it makes nothing but system calls.
    unsafe { command.pre_exec(move || masks.begin_child()) };
    let child = command.spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    watch(child, &masks, Stop::WithChild, may_end)
}

/// Does something in a process of its own, and waits for its end. The process must have no other
/// threads. The child may be the first process of a PID namespace, which the terminal can't stop.
pub(crate) fn run_forked(child: impl FnOnce() -> u8) -> io::Result<ProgramEnd> {
    let masks = Masks::block()?;
    let (child_end, parent_end) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: the process has no other threads, so none holds a lock that the child needs.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(parent_end);
            // It can't kill itself if it is the first process of a PID namespace.
            let orphaned = masks.begin_child().and_then(|()| has_closed(&child_end));
            drop(child_end);
            let code = match orphaned {
                Ok(false) => child(),
                Ok(true) | Err(_) => 1,
            };
            std::process::exit(code.into())
        }
        ForkResult::Parent { child } => {
            drop(child_end);
            let end = watch(child, &masks, Stop::BySignal, &mut || {});
            drop(parent_end);
            end
        }
    }
}

/// Whether the other end of a pipe is closed. A child in a new PID namespace can't see whether its
/// parent is alive, but the kernel closes what the parent had open.
fn has_closed(pipe: &OwnedFd) -> io::Result<bool> {
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut polled, PollTimeout::ZERO)? > 0)
}

/// The signals that a parent waits for, and those that were blocked before.
#[derive(Clone, Copy)]
struct Masks {
    parent: Pid,
    forwarded: SigSet,
    before: SigSet,
}

impl Masks {
    fn block() -> io::Result<Self> {
        let mut forwarded = SigSet::all();
        for signal in NOT_FORWARDED {
            forwarded.remove(signal);
        }
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&forwarded), Some(&mut before))?;
        Ok(Self {
            parent: nix::unistd::getpid(),
            forwarded,
            before,
        })
    }

    /// The first step of the child.
    fn begin_child(&self) -> io::Result<()> {
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None)?;
        nix::sys::prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
        // The parent was killed before the line above. One outside of a child's PID namespace has
        // the number 0 there.
        let parent = nix::unistd::getppid();
        if parent != self.parent && parent.as_raw() != 0 {
            raise(Signal::SIGKILL)?;
        }
        Ok(())
    }
}

/// When this process stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// When the child has stopped.
    WithChild,
    /// When a signal wants it: the program stops by itself, but the child does not.
    BySignal,
}

/// Forwards signals to the child until it ends.
fn watch(
    child: Pid,
    masks: &Masks,
    stop: Stop,
    may_end: &mut dyn FnMut(),
) -> io::Result<ProgramEnd> {
    loop {
        let (signal, by_kernel) = wait(&masks.forwarded)?;
        match signal {
            libc::SIGCHLD => {
                if let Some(end) = check_child(child)? {
                    return Ok(end);
                }
            }
            libc::SIGTSTP if stop == Stop::BySignal => raise(Signal::SIGSTOP)?,
            // The program has received the terminal's signal, too.
            _ if by_kernel => {}
            _ => {
                if ENDING.iter().any(|ending| *ending as i32 == signal) {
                    may_end();
                }
                // If it has just ended, the next iteration notices.
                // SAFETY: it sends a signal to the child, which has not been waited for.
                let _ = unsafe { libc::kill(child.as_raw(), signal) };
            }
        }
    }
}

/// Drops the capabilities that a user namespace has given to this process. Otherwise the program,
/// which has fewer, may not open this process's descriptors. A root process in the namespace
/// regains all of them on exec.
pub(super) fn drop_capabilities() -> io::Result<()> {
    /// The version of the structures, `_LINUX_CAPABILITY_VERSION_3`, and this process.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    const NONE: [u32; 6] = [0; 6];
    // SAFETY: the kernel reads a header and three sets of 64 bits.
    let done = unsafe { libc::syscall(libc::SYS_capset, HEADER.as_ptr(), NONE.as_ptr()) };
    Errno::result(done)?;
    nix::sys::prctl::set_dumpable(true)?;
    Ok(())
}

/// How the program has ended, if it has. Stops this process if the program is stopped.
fn check_child(child: Pid) -> io::Result<Option<ProgramEnd>> {
    loop {
        let mut status = 0;
        let flags = libc::WNOHANG | libc::WUNTRACED;
        // SAFETY: it points to a value that lives for the call.
        match Errno::result(unsafe { libc::waitpid(child.as_raw(), &raw mut status, flags) }) {
            Ok(0) => return Ok(None),
            Ok(_) if libc::WIFSTOPPED(status) => {
                raise(Signal::SIGSTOP)?;
                // The signal that continued this process was meant for the program.
                let _ = kill(child, Signal::SIGCONT);
            }
            Ok(_) => return Ok(ProgramEnd::of(status)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The number of the next signal, and whether the kernel or the terminal sent it.
fn wait(signals: &SigSet) -> io::Result<(i32, bool)> {
    loop {
        // SAFETY: every bit pattern is a value of this type.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both point to values that live for the call.
        let found = unsafe { libc::sigwaitinfo(signals.as_ref(), &raw mut info) };
        match Errno::result(found) {
            Ok(signal) => return Ok((signal, info.si_code > 0)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills this process with the signal that ended the program, so that its parent sees the same.
/// Returns if that is not possible.
pub(crate) fn die_by_signal(ended: i32) {
    // The core dump, if there is one, belongs to the program.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // SAFETY: no handler is set but the default one, and the set lives for the calls.
    unsafe {
        libc::signal(ended, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, ended);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(ended);
    }
}
