//! Runs a test once, in a process group of its own, for a limited time.

use super::leftovers;
use super::output::Output;
use crate::error::Error;
use crate::run::parent;
use crate::run::prepared::Prepared;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Code(u8),
    Signal(Signal),
    /// Not within this time.
    Hung(Duration),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {} ({signal})", *signal as i32),
            Self::Hung(limit) => write!(f, "hung, killed after {:.1} s", limit.as_secs_f64()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
    /// The last lines of its output.
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a test, one run after the other.
pub(super) struct Runner<'a> {
    prepared: &'a Prepared,
    signals: SignalFd,
    /// The signals that were blocked before.
    blocked_before: SigSet,
}

const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// How long to wait for the end of processes that were killed.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

/// The most bytes to read at once from a test that prints.
const PORTION: usize = 1 << 20;

impl<'a> Runner<'a> {
    /// Prepares this process for being the parent of tests.
    pub(super) fn new(prepared: &'a Prepared) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::system("prepare for running tests", error);
        let mut watched = SigSet::from(Signal::SIGCHLD);
        watched.extend(ENDING);
        let mut blocked_before = SigSet::empty();
        let how = SigmaskHow::SIG_BLOCK;
        pthread_sigmask(how, Some(&watched), Some(&mut blocked_before))
            .map_err(|error| failed(error.into()))?;
        leftovers::adopt().map_err(failed)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals = SignalFd::with_flags(&watched, flags).map_err(|e| failed(e.into()))?;
        Ok(Self {
            prepared,
            signals,
            blocked_before,
        })
    }

    /// Runs the test, with more variables, for at most `limit`. Then no process of it is left.
    ///
    /// A signal that ends this process ends the test first.
    pub(super) fn run(
        &self,
        variables: &[(&str, OsString)],
        limit: Duration,
    ) -> Result<Run, Error> {
        let begin = Instant::now();
        let mut command = self.prepared.command();
        // Nothing that the caller's environment has.
        command.env_remove("ROCE_FAULTS");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut child = self
            .spawn(command)
            .map_err(|error| self.prepared.not_started(error))?;
        let failed = |error: io::Error| Error::system("watch a test", error);
        let id = Pid::from_raw(child.id().cast_signed());
        let watched = self.watch(&mut child, id, begin + limit);
        let time = begin.elapsed();
        leftovers::kill_group(id);
        self.clear(id)?;
        let (end, mut outputs) = watched.map_err(failed)?;
        // All that could write have ended.
        let [stdout, stderr] = &mut outputs;
        stdout.read(usize::MAX);
        stderr.read(usize::MAX);
        let [stdout, stderr] = outputs.map(Output::text);
        let outcome = match end {
            End::Status(WaitStatus::Exited(_, code)) => {
                Outcome::Code(u8::try_from(code & 0xff).unwrap_or(1))
            }
            End::Status(WaitStatus::Signaled(_, signal, _)) => Outcome::Signal(signal),
            End::Status(other) => {
                let error = io::Error::other(format!("its end is {other:?}"));
                return Err(failed(error));
            }
            End::Late => Outcome::Hung(limit),
            End::Interrupted(signal) => interrupted(signal),
        };
        Ok(Run {
            outcome,
            time,
            stdout,
            stderr,
        })
    }

    fn spawn(&self, mut command: Command) -> io::Result<std::process::Child> {
        let parent = nix::unistd::getpid();
        let blocked_before = self.blocked_before;
        let prepare = move || {
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked_before), None)?;
            nix::sys::prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
            // The parent was killed before the line above.
            if nix::unistd::getppid() != parent {
                raise(Signal::SIGKILL)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec, it makes nothing but system calls.
        unsafe { command.pre_exec(prepare) };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }

    /// Waits for the end of the child, and reads what it prints.
    fn watch(
        &self,
        child: &mut std::process::Child,
        id: Pid,
        deadline: Instant,
    ) -> io::Result<(End, [Output; 2])> {
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("its output has no pipes"));
        };
        let mut outputs = [Output::of(stdout)?, Output::of(stderr)?];
        loop {
            if let Some(status) = leftovers::end_of(id)? {
                return Ok((End::Status(status), outputs));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok((End::Late, outputs));
            }
            self.wait(&outputs, left)?;
            if let Some(signal) = self.ending_signal()? {
                return Ok((End::Interrupted(signal), outputs));
            }
            for output in &mut outputs {
                output.read(PORTION);
            }
        }
    }

    /// Waits until there is a signal or output, for at most `time`.
    fn wait(&self, outputs: &[Output], time: Duration) -> io::Result<()> {
        let signals = std::iter::once(self.signals.as_fd());
        let descriptors = signals.chain(outputs.iter().filter_map(Output::descriptor));
        let mut polled: Vec<PollFd<'_>> = descriptors
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        // Rounded up, so that the loop does not spin in the last millisecond.
        let timeout = PollTimeout::try_from(time + Duration::from_millis(1));
        match poll(&mut polled, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A signal that ends the hunt, if one has come.
    fn ending_signal(&self) -> io::Result<Option<Signal>> {
        while let Some(found) = self.signals.read_signal()? {
            let number = i32::try_from(found.ssi_signo).unwrap_or(0);
            match Signal::try_from(number) {
                Ok(Signal::SIGCHLD) | Err(_) => {}
                Ok(signal) => return Ok(Some(signal)),
            }
        }
        Ok(None)
    }

    /// Kills all that the test has left, and waits for its end.
    fn clear(&self, test: Pid) -> Result<(), Error> {
        let deadline = Instant::now() + KILLED_WITHIN;
        while !leftovers::clear() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let ids: Vec<_> = leftovers::children().iter().map(Pid::to_string).collect();
                let error = io::Error::other(format!(
                    "they run on {} s after SIGKILL: they belong to another user, or wait for a \
                     device",
                    KILLED_WITHIN.as_secs()
                ));
                let what = format!("end the processes {} of test {test}", ids.join(", "));
                return Err(Error::system(what, error));
            }
            let failed = |error| Error::system("wait for the end of a test", error);
            self.wait(&[], left.min(Duration::from_millis(100)))
                .map_err(failed)?;
            if let Some(signal) = self.ending_signal().map_err(failed)? {
                interrupted(signal);
            }
        }
        Ok(())
    }
}

/// Why to stop watching a test.
enum End {
    Status(WaitStatus),
    Late,
    Interrupted(Signal),
}

/// Ends this process as the signal would have ended it.
fn interrupted(signal: Signal) -> ! {
    parent::die_by_signal(signal as i32);
    std::process::exit(128 + signal as i32)
}
