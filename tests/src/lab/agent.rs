//! The host's end of the command channel; the guest's is lab/agent.py, which
//! documents the frames.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::qemu::{CONSOLE_LOG, QEMU_LOG};
use super::status::GuestStatus;
use super::{LabError, oops};

/// Longest frame body in either direction, in bytes.
const MAX_BODY: usize = 65536;
/// Time after which a guest that leaves the channel full counts as dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of the console that an error shows.
const CONSOLE_TAIL: usize = 30;

/// The command channel of one guest.
#[derive(Debug)]
pub(super) struct Agent {
    writer: Mutex<UnixStream>,
    state: Mutex<State>,
    changed: Condvar,
    folder: PathBuf,
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    /// The reason, set once, when the channel breaks.
    dead: Option<String>,
    last_id: u32,
    commands: HashMap<u32, Progress>,
}

/// The progress of a command: output that was not read yet, and its end.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) started: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// The status, or the reason why it could not be started.
    pub(super) end: Option<Result<GuestStatus, String>>,
}

impl Agent {
    /// Opens the channel; a thread reads it until the guest is gone.
    pub(super) fn connect(channel: UnixStream, folder: &Path) -> Result<Arc<Self>, LabError> {
        let failed = |e: io::Error| LabError::new(format!("cannot use the command channel: {e}"));
        channel
            .set_write_timeout(Some(WRITE_TIMEOUT))
            .map_err(failed)?;
        let reader = channel.try_clone().map_err(failed)?;
        let agent = Arc::new(Self {
            writer: Mutex::new(channel),
            state: Mutex::default(),
            changed: Condvar::new(),
            folder: folder.to_owned(),
        });
        let shared = Arc::clone(&agent);
        thread::Builder::new()
            .name("lab-agent".to_owned())
            .spawn(move || shared.read_frames(reader))
            .map_err(failed)?;
        Ok(agent)
    }

    /// Waits until the guest accepts commands.
    pub(super) fn wait_ready(&self, timeout: Duration) -> Result<(), LabError> {
        self.wait_for(timeout, "the guest to boot", |state| {
            state.ready.then_some(())
        })
    }

    /// Starts a command. Waits until it runs, or returns why it does not.
    pub(super) fn start(&self, spec: &Value) -> Result<u32, LabError> {
        let id = {
            let mut state = self.state();
            state.last_id += 1;
            let id = state.last_id;
            state.commands.insert(id, Progress::default());
            id
        };
        self.send(b'S', id, spec.to_string().as_bytes())?;
        let started = self.wait(
            id,
            Duration::from_secs(60),
            "a command to start",
            |progress| match &progress.end {
                Some(Err(reason)) => Some(Err(reason.clone())),
                _ => progress.started.then_some(Ok(())),
            },
        )?;
        started
            .map(|()| id)
            .map_err(|reason| LabError::new(format!("cannot run {spec}: {reason}")))
    }

    /// Sends bytes to a command's stdin.
    pub(super) fn feed(&self, id: u32, bytes: &[u8]) -> Result<(), LabError> {
        bytes
            .chunks(MAX_BODY)
            .try_for_each(|chunk| self.send(b'I', id, chunk))
    }

    /// Closes a command's stdin, after the bytes that were sent to it.
    pub(super) fn close_stdin(&self, id: u32) -> Result<(), LabError> {
        self.send(b'I', id, &[])
    }

    /// Sends a signal to a command and the processes it has started.
    pub(super) fn signal(&self, id: u32, signal: i32) -> Result<(), LabError> {
        self.send(b'K', id, json!({ "signal": signal }).to_string().as_bytes())
    }

    /// Kills all running commands, and waits until they have ended.
    pub(super) fn kill_all(&self) {
        let running: Vec<u32> = {
            let state = self.state();
            state
                .commands
                .iter()
                .filter(|(_, p)| p.end.is_none())
                .map(|(&id, _)| id)
                .collect()
        };
        for id in running {
            // A dead guest runs nothing.
            if self.signal(id, libc::SIGKILL).is_ok() {
                let ended = |progress: &mut Progress| progress.end.is_some().then_some(());
                let _ = self.wait(
                    id,
                    Duration::from_secs(20),
                    "a killed command to end",
                    ended,
                );
            }
            self.forget(id);
        }
    }

    /// Drops the progress of a command.
    pub(super) fn forget(&self, id: u32) {
        self.state().commands.remove(&id);
    }

    /// Waits until `ready` returns a value for the progress of command `id`. `what` describes it in
    /// the error after a timeout or the guest's end.
    pub(super) fn wait<T>(
        &self,
        id: u32,
        timeout: Duration,
        what: &str,
        mut ready: impl FnMut(&mut Progress) -> Option<T>,
    ) -> Result<T, LabError> {
        self.wait_for(timeout, what, |state| match state.commands.get_mut(&id) {
            Some(progress) => ready(progress).map(Ok),
            None => Some(Err(LabError::new(
                "the command was killed by a reset of the lab",
            ))),
        })?
    }

    fn wait_for<T>(
        &self,
        timeout: Duration,
        what: &str,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, LabError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            if let Some(reason) = &state.dead {
                return Err(self.failure(&format!("waiting for {what}: {reason}")));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(
                    self.failure(&format!("timed out after {timeout:?}, waiting for {what}"))
                );
            }
            (state, _) = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// An error about the guest, with the last lines of its console and of the emulator.
    fn failure(&self, what: &str) -> LabError {
        let mut text = what.to_owned();
        for (name, file) in [("the guest's console", CONSOLE_LOG), ("QEMU", QEMU_LOG)] {
            let log = fs::read(self.folder.join(file)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            // Starts at the first line of a crash, if there is one.
            let tail = lines.len().saturating_sub(CONSOLE_TAIL);
            let shown = &lines[oops::first_sign(&log).map_or(tail, |sign| sign.min(tail))..];
            if !shown.is_empty() {
                text += &format!("\n--- the end of {name}:\n{}\n---", shown.join("\n"));
            }
        }
        LabError::new(text)
    }

    fn send(&self, kind: u8, id: u32, body: &[u8]) -> Result<(), LabError> {
        let length = u32::try_from(body.len()).map_err(|_| LabError::new("command too long"))?;
        let mut frame = vec![kind];
        frame.extend_from_slice(&id.to_le_bytes());
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(body);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(&frame).map_err(|e| {
            // Half a frame may have been sent, so the channel cannot be used again. The reader
            // finds it closed, and wakes up all waiting threads.
            let _ = writer.shutdown(Shutdown::Both);
            self.failure(&format!("the guest takes no commands: {e}"))
        })
    }

    fn read_frames(&self, mut channel: UnixStream) {
        let reason = loop {
            match read_frame(&mut channel) {
                Ok((kind, id, body)) => self.on_frame(kind, id, &body),
                Err(error) => break format!("the guest is gone ({error})"),
            }
        };
        self.state().dead = Some(reason);
        self.changed.notify_all();
    }

    fn on_frame(&self, kind: u8, id: u32, body: &[u8]) {
        let mut state = self.state();
        if kind == b'R' {
            state.ready = true;
        } else if let Some(progress) = state.commands.get_mut(&id) {
            match kind {
                b'P' => progress.started = true,
                b'O' => progress.stdout.extend_from_slice(body),
                b'E' => progress.stderr.extend_from_slice(body),
                b'F' => progress.end = Some(Err(String::from_utf8_lossy(body).into_owned())),
                b'X' => progress.end = Some(Ok(status(body))),
                _ => {}
            }
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics in the middle of a change of the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_frame(channel: &mut UnixStream) -> io::Result<(u8, u32, Vec<u8>)> {
    let mut header = [0; 9];
    channel.read_exact(&mut header)?;
    let [kind, i0, i1, i2, i3, l0, l1, l2, l3] = header;
    let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    if length > MAX_BODY {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut body = vec![0; length];
    channel.read_exact(&mut body)?;
    Ok((kind, u32::from_le_bytes([i0, i1, i2, i3]), body))
}

fn status(body: &[u8]) -> GuestStatus {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let number = |name: &str| value[name].as_i64().and_then(|n| i32::try_from(n).ok());
    match (number("code"), number("signal")) {
        (Some(code), _) => GuestStatus::Exited(code),
        (None, signal) => GuestStatus::Killed(signal.unwrap_or_default()),
    }
}
