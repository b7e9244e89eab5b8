//! Commands in the guest.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::LabError;
use super::agent::{Agent, Progress};
use super::status::GuestStatus;

/// A command to run in the guest, similar to [`std::process::Command`]. Its working directory is
/// `/tmp` of the guest, in memory.
#[derive(Debug)]
pub struct GuestCommand {
    agent: Arc<Agent>,
    argv: Vec<String>,
    /// Whether `argv` is the name of a module of the agent instead of a program.
    is_module: bool,
    env: Map<String, Value>,
    stdin: Vec<u8>,
}

impl GuestCommand {
    pub(super) fn new(agent: Arc<Agent>, argv: Vec<String>) -> Self {
        Self {
            agent,
            argv,
            is_module: false,
            env: Map::new(),
            stdin: Vec::new(),
        }
    }

    pub(super) fn module(agent: Arc<Agent>, name: &str) -> Self {
        Self {
            is_module: true,
            ..Self::new(agent, vec![name.to_owned()])
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: &[String]) -> Self {
        self.argv.extend_from_slice(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the bytes for the command's stdin.
    #[must_use]
    pub fn stdin(mut self, bytes: &[u8]) -> Self {
        self.stdin = bytes.to_vec();
        self
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// If it cannot be started, or the guest is gone, or it has not ended after `timeout`. In the
    /// last case it is killed, and the error has its output.
    pub fn output(self, timeout: Duration) -> Result<GuestOutput, LabError> {
        let child = self.spawn()?;
        child.close_stdin()?;
        child.wait(timeout)
    }

    /// Starts the command. Sends it the bytes of [`stdin`](Self::stdin), and leaves its stdin open
    /// for more.
    pub fn spawn(self) -> Result<GuestChild, LabError> {
        let spec = match self.is_module {
            true => json!({ "module": self.argv[0] }),
            false => json!({ "argv": self.argv, "env": self.env }),
        };
        let id = self.agent.start(&spec)?;
        let child = GuestChild {
            agent: self.agent,
            id,
            name: self.argv.join(" "),
            output: GuestOutput {
                name: self.argv.join(" "),
                status: GuestStatus::Exited(0),
                stdout: Vec::new(),
                stderr: Vec::new(),
            },
            unread: [0; 2],
        };
        child.write(&self.stdin)?;
        Ok(child)
    }
}

/// A command that runs in the guest. Dropping it kills it.
#[derive(Debug)]
pub struct GuestChild {
    agent: Arc<Agent>,
    id: u32,
    name: String,
    /// All output so far.
    output: GuestOutput,
    /// Offset in stdout and stderr of the first line that was not returned yet.
    unread: [usize; 2],
}

impl GuestChild {
    /// Sends bytes to the command's stdin.
    pub fn write(&self, bytes: &[u8]) -> Result<(), LabError> {
        self.agent.feed(self.id, bytes)
    }

    /// Closes the command's stdin.
    pub fn close_stdin(&self) -> Result<(), LabError> {
        self.agent.close_stdin(self.id)
    }

    /// The next whole line of stdout, without its end.
    ///
    /// # Errors
    /// If the command ends, or `timeout` passes, before there is one.
    pub fn read_line(&mut self, timeout: Duration) -> Result<String, LabError> {
        self.next_line(timeout, "a line", &[0], |_| true)
    }

    /// The next line of stdout or stderr that contains `pattern`; lines before it are skipped.
    ///
    /// # Errors
    /// If the command ends, or `timeout` passes, before there is one.
    pub fn wait_for_line(&mut self, pattern: &str, timeout: Duration) -> Result<String, LabError> {
        let what = format!("a line with {pattern:?}");
        self.next_line(timeout, &what, &[0, 1], |line| line.contains(pattern))
    }

    /// Waits until the command has ended, and returns all of its output.
    ///
    /// # Errors
    /// If it has not ended after `timeout`. In this case it is killed.
    pub fn wait(mut self, timeout: Duration) -> Result<GuestOutput, LabError> {
        let what = format!("`{}` to end", self.name);
        let output = &mut self.output;
        let ended = self.agent.wait(self.id, timeout, &what, |progress| {
            take_output(progress, output);
            progress.end.clone()
        });
        match ended {
            Ok(Ok(status)) => {
                self.output.status = status;
                Ok(self.output.clone())
            }
            Ok(Err(reason)) => Err(LabError::new(reason)),
            Err(error) => Err(error.context(self.output.describe())),
        }
    }

    /// Sends a signal to the command and the processes it has started.
    pub fn signal(&self, signal: i32) -> Result<(), LabError> {
        self.agent.signal(self.id, signal)
    }

    /// Kills the command and the processes it has started, and waits until it has
    /// ended.
    pub fn kill(self) -> Result<GuestOutput, LabError> {
        self.signal(libc::SIGKILL)?;
        self.wait(Duration::from_secs(20))
    }

    /// Everything that the command has written and this side has read so far.
    pub fn output_so_far(&self) -> &GuestOutput {
        &self.output
    }

    fn next_line(
        &mut self,
        timeout: Duration,
        what: &str,
        streams: &[usize],
        wanted: impl Fn(&str) -> bool,
    ) -> Result<String, LabError> {
        let what = format!("{what} from `{}`", self.name);
        let (output, unread) = (&mut self.output, &mut self.unread);
        let found = self.agent.wait(self.id, timeout, &what, |progress| {
            take_output(progress, output);
            for &stream in streams {
                let bytes = if stream == 0 {
                    &output.stdout
                } else {
                    &output.stderr
                };
                let from = &mut unread[stream];
                while let Some(length) = bytes[*from..].iter().position(|&b| b == b'\n') {
                    let line = String::from_utf8_lossy(&bytes[*from..*from + length]).into_owned();
                    *from += length + 1;
                    if wanted(&line) {
                        return Some(Ok(line));
                    }
                }
            }
            progress.end.clone().map(Err)
        });
        match found {
            Ok(Ok(line)) => Ok(line),
            Ok(Err(end)) => Err(LabError::new(format!(
                "{}: it ended ({end:?}) before it wrote {what}",
                self.output.describe()
            ))),
            Err(error) => Err(error.context(self.output.describe())),
        }
    }
}

impl Drop for GuestChild {
    fn drop(&mut self) {
        // An error means that the command has ended or that the guest is gone.
        let _ = self.signal(libc::SIGKILL);
        self.agent.forget(self.id);
    }
}

fn take_output(progress: &mut Progress, output: &mut GuestOutput) {
    output.stdout.append(&mut progress.stdout);
    output.stderr.append(&mut progress.stderr);
}

/// The output of a command in the guest, and how it ended.
#[derive(Clone, PartialEq, Eq)]
pub struct GuestOutput {
    name: String,
    /// How it ended.
    pub status: GuestStatus,
    /// All of its stdout.
    pub stdout: Vec<u8>,
    /// All of its stderr.
    pub stderr: Vec<u8>,
}

impl GuestOutput {
    /// Itself, if the command ended with exit code 0.
    ///
    /// # Errors
    /// Otherwise, with the output.
    pub fn success(self) -> Result<Self, LabError> {
        if self.status == GuestStatus::Exited(0) {
            return Ok(self);
        }
        Err(LabError::new(format!(
            "{} ended with {:?}",
            self.describe(),
            self.status
        )))
    }

    /// Stdout as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stderr as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    fn describe(&self) -> String {
        let mut text = format!("in the guest, `{}`", self.name);
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !bytes.is_empty() {
                text += &format!(
                    "\n--- its {name}:\n{}\n---\n",
                    String::from_utf8_lossy(bytes)
                );
            }
        }
        text
    }
}

impl fmt::Debug for GuestOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.status, self.describe())
    }
}
