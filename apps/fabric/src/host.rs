//! A host: a thread in namespaces of its own, which starts the host's programs there.

use crate::error::FabricError;
use crate::inherited::{Inherited, Session};
use crate::reaper::{ExitCode, Reaper};
use crate::{interface, space};
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, sethostname};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to do in the namespaces of a host.
#[derive(Debug)]
pub(crate) enum Job {
    /// To start a program.
    Start(Start),
    /// To say what there is.
    Look(fn() -> String, Sender<String>),
}

/// A program to start on a host.
#[derive(Debug)]
pub(crate) struct Start {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// Variables besides those of this process.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The folder in which it starts.
    pub(crate) folder: PathBuf,
    /// Standard input, output and error; `None` for those of this process.
    pub(crate) descriptors: Option<[OwnedFd; 3]>,
    /// Where its process ID goes, and later its exit code.
    pub(crate) started: Sender<io::Result<Started>>,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) end: Receiver<ExitCode>,
}

/// The fabric, as far as a host needs to know it.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    /// Its number, from 1.
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) mtu: usize,
    /// The contents of `/etc/hosts`.
    pub(crate) hosts: String,
    /// The contents of the file of MPI's hosts.
    pub(crate) host_file: String,
    /// For its programs.
    pub(crate) inherited: Inherited,
}

/// A host that is ready.
#[derive(Debug)]
pub(crate) struct Host {
    /// The frames of its interface.
    pub(crate) tap: Option<OwnedFd>,
    /// The socket at which its programs ask for the fabric.
    pub(crate) control: Option<OwnedFd>,
    /// Where its programs run.
    pub(crate) place: Place,
    jobs: Sender<Job>,
}

/// The network namespace of a host, by which its processes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    fn of(path: &str) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// Sends a signal to all processes of the host; one that stops or kills also to those that
    /// start meanwhile.
    pub(crate) fn signal(self, signal: Signal) {
        // A process that was not there in one round was started by one that had no signal yet.
        let mut reached = BTreeSet::new();
        loop {
            let fresh: Vec<i32> = self
                .processes()
                .into_iter()
                .filter(|pid| reached.insert(*pid))
                .collect();
            if fresh.is_empty() {
                return;
            }
            for pid in fresh {
                // It may have ended.
                let _ = kill(Pid::from_raw(pid), signal);
            }
            // Those that go on can start others for ever.
            if signal == Signal::SIGCONT {
                return;
            }
        }
    }

    fn processes(self) -> Vec<i32> {
        let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
        let own = std::process::id().cast_signed();
        let is_here = |pid: &i32| {
            *pid != own && Self::of(&format!("/proc/{pid}/ns/net")).is_ok_and(|found| found == self)
        };
        pids.filter(is_here).collect()
    }
}

/// A folder that each host has for itself, in memory.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// The file that names all hosts, for MPI.
pub const HOST_FILE: &str = "/dev/shm/fabric-hosts";

impl Host {
    /// Makes a host.
    pub(crate) fn start(plan: HostPlan, reaper: Reaper) -> Result<Self, FabricError> {
        let (ready, is_ready) = channel();
        let (jobs, queue) = channel();
        let name = plan.name.clone();
        let failed = |error| FabricError::new("start a thread for a host", error);
        std::thread::Builder::new()
            .name(name)
            .spawn(move || serve(&plan, &reaper, &ready, &queue))
            .map_err(failed)?;
        let (tap, control, place) = is_ready
            .recv()
            .map_err(|_| failed(io::Error::other("it ended")))??;
        Ok(Self {
            tap: Some(tap),
            control: Some(control),
            place,
            jobs,
        })
    }

    /// Hands a job to the host.
    pub(crate) fn jobs(&self) -> Sender<Job> {
        self.jobs.clone()
    }
}

type Ready = Result<(OwnedFd, OwnedFd, Place), FabricError>;

fn serve(plan: &HostPlan, reaper: &Reaper, ready: &Sender<Ready>, queue: &Receiver<Job>) {
    let made = make(plan);
    let is_made = made.is_ok();
    // The fabric may be gone.
    let _ = ready.send(made);
    if !is_made {
        return;
    }
    for job in queue {
        // The one that asked may be gone.
        match job {
            Job::Start(job) => {
                let answer = job.started.clone();
                let _ = answer.send(start(reaper, job, plan.inherited));
            }
            Job::Look(look, answer) => {
                let _ = answer.send(look());
            }
        }
    }
}

fn make(plan: &HostPlan) -> Ready {
    let name = &plan.name;
    let failed = |what: &str, error| FabricError::new(format!("host {name}: {what}"), error);
    let own = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC;
    unshare(own).map_err(|error| failed("make namespaces", error.into()))?;
    sethostname(name).map_err(|error| failed("set its name", error.into()))?;
    let tap =
        interface::make(plan.number, plan.mtu).map_err(|(what, error)| failed(what, error))?;
    // A container may not allow a new /sys; then programs see the interfaces of the container there.
    let _ = space::mount_over(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty());
    files(plan).map_err(|error| failed("make its files", error))?;
    let control =
        crate::control::listen().map_err(|error| failed("listen for its programs", error))?;
    let place = Place::of("/proc/thread-self/ns/net");
    let place = place.map_err(|error| failed("find its namespace", error))?;
    Ok((tap, control, place))
}

/// Gives the host its own names in `/etc`, and its own shared memory.
fn files(plan: &HostPlan) -> io::Result<()> {
    // The files stay when the folder in which they were made is unmounted.
    in_memory()?;
    for (name, contents) in [
        ("/etc/hosts", plan.hosts.as_str()),
        ("/etc/hostname", plan.name.as_str()),
    ] {
        let made = format!("{SHARED_MEMORY}/{}", name.replace('/', "-"));
        fs::write(&made, format!("{contents}\n"))?;
        match space::mount_over(Some(&made), name, None, MsFlags::MS_BIND) {
            // A system without this file needs none.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    umount2(SHARED_MEMORY, MntFlags::MNT_DETACH)?;
    in_memory()?;
    fs::write(HOST_FILE, &plan.host_file)
}

fn in_memory() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    space::mount_over(Some("tmpfs"), SHARED_MEMORY, Some("tmpfs"), flags)
}

fn start(reaper: &Reaper, job: Start, inherited: Inherited) -> io::Result<Started> {
    let (program, arguments) = job
        .words
        .split_first()
        .ok_or_else(|| io::Error::other("name a program to start"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&job.folder);
    command.envs(job.variables.iter().map(|(name, value)| (name, value)));
    let session = match job.descriptors {
        None => Session::Shared,
        Some([input, output, error]) => {
            command
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .stderr(Stdio::from(error));
            Session::Own
        }
    };
    inherited.give_to(&mut command, session);
    let (pid, end) = reaper.spawn(&mut command)?;
    Ok(Started { pid, end })
}
