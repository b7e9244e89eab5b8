//! The network namespace of a lab, kept by one thread of this process.
//!
//! The thread lives as long as the lab. It starts all children that must live as long, because the
//! kernel signals the death of the parent's *thread*.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use super::LabError;
use super::owner;

type Job = Box<dyn FnOnce() + Send>;

/// The namespace and the thread that keeps it.
#[derive(Debug)]
pub(crate) struct Namespace {
    network: testkit::Namespace,
    jobs: Mutex<mpsc::Sender<Job>>,
    owner: String,
}

impl Namespace {
    /// Makes an empty namespace for the lab `owner`.
    pub(crate) fn create(owner: &str) -> Result<Self, LabError> {
        let network = testkit::Namespace::new()
            .map_err(|e| LabError::poor_machine(format!("no network namespace to be had: {e}")))?;
        let (jobs, inbox) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("lab-keeper".to_owned())
            .spawn(move || inbox.into_iter().for_each(|job| job()))
            .map_err(|e| LabError::new(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            network,
            jobs: Mutex::new(jobs),
            owner: owner.to_owned(),
        })
    }

    /// The namespace's link target in /proc/PID/ns/net.
    pub(crate) fn identity(&self) -> String {
        let link = self
            .network
            .enter(|| fs::read_link("/proc/thread-self/ns/net"));
        link.expect("procfs").to_string_lossy().into_owned()
    }

    /// A command that runs inside, and dies with the thread that spawns it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.network.command(program);
        command.env(owner::VARIABLE, &self.owner);
        command
    }

    /// Starts `command`, one of [`Self::command`]. It lives until it ends, is killed, or this
    /// namespace is dropped.
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let (reply, spawned) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || {
            // The receiver waits below.
            let _ = reply.send(command.spawn());
        });
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.send(job).map_err(|_| io::ErrorKind::NotConnected)?;
        spawned.recv().map_err(io::Error::other)?
    }

    /// Runs a program inside to its end, with `input` on its stdin; returns its
    /// stdout.
    pub(crate) fn run(&self, argv: &[&str], input: &str) -> Result<String, LabError> {
        let output = self.network.run_with(argv, input);
        output.map_err(|error| LabError::new(error.to_string()))
    }

    /// Runs `work` on a new thread inside.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.network.enter(work)
    }

    /// Sets a variable of the kernel's network.
    pub(crate) fn set(&self, variable: &str, value: &str) -> Result<(), LabError> {
        let set = self.network.set(variable, value);
        set.map_err(|error| LabError::new(error.to_string()))
    }
}
