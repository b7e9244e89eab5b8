//! The host and the target of this crate, against each other over the loopback interface.
//!
//! These tests need no privileges.

mod data;
mod ends;
mod errors;
mod hostile;
mod raw;

use roce_nvme::Address;
use roce_nvme::host::{Host, HostOptions};
use roce_nvme::target::{Backing, Snapshot, Subsystem, Target, TargetOptions};
use roce_nvme::wire::Nqn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time that something may take that takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The length of both namespaces.
const LEN: usize = 64 << 20;

/// A target with two namespaces: number 1 in a file, number 2 in memory.
struct Rig {
    target: Option<Target>,
    folder: TempDir,
    options: TargetOptions,
    /// Where the target listens, also after it has been started again.
    at: SocketAddr,
}

impl Rig {
    fn start() -> Self {
        Self::with(TargetOptions::default())
    }

    fn with(options: TargetOptions) -> Self {
        let mut rig = Self {
            target: None,
            folder: tempfile::tempdir().expect("a folder"),
            options,
            at: "127.0.0.1:0".parse().expect("an address"),
        };
        rig.up();
        rig
    }

    /// Starts the target, at the port that it had before.
    fn up(&mut self) {
        let subsystem = Subsystem::new(nqn())
            .with(Backing::file_or_new(self.file(), LEN as u64))
            .with(Backing::memory(LEN as u64));
        let target = Target::listen(self.at, subsystem, self.options).expect("it listens");
        self.at = target.address().at;
        self.target = Some(target);
    }

    fn down(&mut self) {
        self.target = None;
    }

    /// The file of namespace 1.
    fn file(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn target(&self) -> &Target {
        self.target.as_ref().expect("it is up")
    }

    fn address(&self) -> Address {
        self.target().address().clone()
    }

    fn host(&self, queues: u16) -> Host {
        let options = HostOptions {
            queues,
            ..HostOptions::default()
        };
        Host::connect(&self.address(), &options).expect("connected")
    }

    /// Waits until the target's snapshot is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let end = Instant::now() + PATIENCE;
        loop {
            let snapshot = self.target().snapshot();
            if wanted(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < end, "not {what}: {snapshot:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until nothing is left of all hosts.
    fn until_all_is_free(&self) {
        self.until("free", |s| {
            (s.connections, s.half_open, s.controllers, s.queues) == (0, 0, 0, 0)
        });
    }
}

fn nqn() -> Nqn {
    let name = "nqn.2014-08.org.nvmexpress:loopback";
    name.parse().expect("a name")
}
