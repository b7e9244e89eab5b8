//! A program on our library.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Instant;

use roce_tests::programs;

use super::{INTERVAL, TIMEOUT};

/// A command as it is started in some namespace.
pub(crate) type Namespace<'a> = &'a dyn Fn(&Path) -> Command;

/// Runs a client until its server no longer refuses it, at most for [`TIMEOUT`].
pub(crate) fn until_accepted(
    mut client: impl FnMut() -> Result<String, String>,
) -> Result<String, String> {
    let end = Instant::now() + TIMEOUT;
    loop {
        match client() {
            Err(told) if told.contains("Connection refused") && Instant::now() < end => {}
            result => return result,
        }
    }
}

/// A running program, with its output in a file. Ended when dropped.
#[derive(Debug)]
pub(crate) struct Ours {
    child: Child,
    said: PathBuf,
}

impl Ours {
    /// Starts it. Its output, stdout with stderr, goes to the file `said`. It fails unless bytes
    /// move through this stack.
    pub(crate) fn start(
        namespace: Namespace<'_>,
        words: &[String],
        environment: &[(&str, &str)],
        said: PathBuf,
    ) -> Self {
        let file = File::create(&said).expect("a file");
        let child = namespace(programs::roce())
            .args(["run", "--quiet", "--require-traffic", "--library"])
            .arg(programs::built("libroce_verbs_shim.so"))
            .arg("--")
            .args(words)
            .env("ROCE_LOG", "1")
            .envs(environment.iter().copied())
            .stdin(std::process::Stdio::null())
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("it starts");
        Self { child, said }
    }

    /// What it has printed so far.
    pub(crate) fn said(&self) -> String {
        fs::read(&self.said)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until it has bound a port of RDMA. It may listen only a moment later:
    /// [`until_accepted`].
    ///
    /// # Errors
    /// If it ends before, with its output.
    pub(crate) fn wait_until_bound(&mut self) -> Result<(), String> {
        let sockets = format!("/proc/{}/net/unix", self.child.id());
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Err(format!("ours ended: {status}: {}", self.said()));
            }
            // The name of the claim on the port, one of the network namespace's.
            let all = fs::read_to_string(&sockets).unwrap_or_default();
            if all.contains("/claim/") {
                return Ok(());
            }
            thread::sleep(INTERVAL);
        }
        Err(format!("ours has no port: {}", self.said()))
    }

    /// Waits until some program of its network namespace has a UDP port.
    pub(crate) fn wait_until_it_has_udp_port(&self, port: u16) {
        let wanted = format!(":{port:04X} ");
        let end = Instant::now() + TIMEOUT;
        let has = || {
            ["udp", "udp6"].iter().any(|table| {
                let table = format!("/proc/{}/net/{table}", self.child.id());
                let sockets = fs::read_to_string(table).unwrap_or_default();
                sockets.lines().any(|line| line.contains(&wanted))
            })
        };
        while !has() {
            assert!(Instant::now() < end, "no port {port}: {}", self.said());
            thread::sleep(INTERVAL);
        }
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// If it fails, or has not ended in [`TIMEOUT`], with its output.
    pub(crate) fn finish(&mut self) -> Result<String, String> {
        match self.ended() {
            Some(status) if status.success() => Ok(self.said()),
            Some(status) => Err(format!("ours: {status}: {}", self.said())),
            None => Err(format!("ours has not ended: {}", self.said())),
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Some(status);
            }
            thread::sleep(INTERVAL);
        }
        None
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        programs::end(&mut self.child);
    }
}
