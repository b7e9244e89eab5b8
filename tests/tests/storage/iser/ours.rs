//! Programs on our library, outside, next to the guest.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Instant;

use roce_tests::lab::Lab;
use roce_tests::programs;
use serde_json::Value;

use super::{INTERVAL, TIMEOUT};

/// `roce run PROGRAM`, in the lab's network.
pub(super) fn command(lab: &Lab, program: impl AsRef<OsStr>) -> Command {
    let mut command = lab.host_command(programs::roce());
    command
        .args(["run", "--library"])
        .arg(programs::built("libroce_verbs_shim.so"))
        .arg("--")
        .arg(program)
        .env("ROCE_LOG", "1");
    command
}

/// A program that runs in the background, with its output in a file. Killed when dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    /// Starts it. Its output, stdout with stderr, goes to the file `name` of the lab's folder.
    pub(super) fn start(lab: &Lab, mut command: Command, name: &str) -> Self {
        let said = lab.directory().join(name);
        let file = File::create(&said).expect("a file");
        let child = command
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file)
            .spawn()
            .expect("it starts");
        Self { child, said }
    }

    /// What it has printed so far.
    pub(super) fn said(&self) -> String {
        fs::read(&self.said)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until `wanted` finds something, while the program runs.
    ///
    /// # Panics
    /// If the program ends, or [`TIMEOUT`] passes, before that.
    #[track_caller]
    pub(super) fn wait_for<T>(&mut self, what: &str, wanted: impl Fn(&Self) -> Option<T>) -> T {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = wanted(self) {
                return found;
            }
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{what}: {ended:?}: {}", self.said());
            assert!(Instant::now() < end, "{what}: never: {}", self.said());
            thread::sleep(INTERVAL);
        }
    }

    /// Kills it, without a chance to say goodbye to peers.
    pub(super) fn kill(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends, and returns whether with success.
    ///
    /// # Panics
    /// If it has not ended after [`TIMEOUT`].
    #[track_caller]
    pub(super) fn succeeds(&mut self) -> bool {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.success();
            }
            assert!(Instant::now() < end, "it does not end: {}", self.said());
            thread::sleep(INTERVAL);
        }
    }

    /// The QPs that it has, according to `roce top`.
    pub(super) fn qps(&self, lab: &Lab) -> Vec<Value> {
        let output = lab
            .host_command(programs::roce())
            .args(["top", "--json", "--once"])
            .output()
            .expect("roce top");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let all = shown["qps"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|qp| qp["pid"] == self.child.id())
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- {}:\n{}", self.said.display(), self.said());
        }
    }
}
