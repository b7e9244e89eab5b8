//! All hosts, the network between them, and what their programs ask for.

use crate::control::{self, Answer, Request};
use crate::emulator::Emulator;
use crate::error::FabricError;
use crate::host::{HOST_FILE, Host, HostPlan, Job, Started};
use crate::lag::Lag;
use crate::reaper::{ExitCode, Reaper};
use crate::{frame, space};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, killpg};
use roce_sim::fabric::Fabric;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, TryRecvError, channel};

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    /// The names of the hosts. Host `i` is host `i` of the fabric.
    pub names: Vec<String>,
    /// The MTU of the hosts' interfaces.
    pub mtu: usize,
    /// Processes that MPI may start on each host.
    pub slots: usize,
    /// What every program is started by: `roce run --`, say.
    pub prefix: Vec<OsString>,
    /// Variables for all programs.
    pub variables: Vec<(OsString, OsString)>,
}

/// Hosts that are connected. It lives in the first process of its PID namespace: when that ends,
/// all are gone.
#[derive(Debug)]
pub struct Cluster {
    desk: Desk,
    emulator: Emulator,
    wakes: Arc<EventFd>,
}

/// Where programs ask for others.
#[derive(Clone, Debug)]
struct Desk {
    plan: Arc<ClusterPlan>,
    jobs: Vec<Sender<Job>>,
}

impl Cluster {
    /// Makes the hosts, and connects them by a fabric whose hosts are all outside.
    ///
    /// # Errors
    /// If the system does not allow something.
    pub fn start(plan: ClusterPlan, fabric: Fabric) -> Result<Self, FabricError> {
        let failed = |what: &str, error| FabricError::new(what, error);
        // Without it, tools see the processes of the system outside.
        let _ = space::show_processes();
        let reaper = Reaper::start().map_err(|error| failed("start a thread", error))?;
        let host_plan = |(number, name): (u16, &String)| HostPlan {
            number,
            name: name.clone(),
            mtu: plan.mtu,
            hosts: hosts_file(&plan.names),
            host_file: mpi_hosts(&plan),
        };
        let mut hosts = (1..)
            .zip(&plan.names)
            .map(|host| Host::start(host_plan(host), reaper.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let taps: Vec<OwnedFd> = hosts.iter_mut().filter_map(|host| host.tap.take()).collect();
        let emulator = Emulator::new(fabric, taps, plan.mtu);
        let wakes = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| failed("make an eventfd", error.into()))?;
        let desk = Desk {
            plan: Arc::new(plan),
            jobs: hosts.iter().map(Host::jobs).collect(),
        };
        for listener in hosts.iter_mut().filter_map(|host| host.control.take()) {
            let desk = desk.clone();
            thread("desk", move || desk.serve(&listener))
                .map_err(|error| failed("start a thread", error))?;
        }
        Ok(Self {
            desk,
            emulator,
            wakes: Arc::new(wakes),
        })
    }

    /// Runs a program on a host, with the standard input, output and error of this process, and the
    /// network until it ends. Returns its exit code.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn run(
        &mut self,
        host: usize,
        words: &[OsString],
        folder: &Path,
    ) -> Result<ExitCode, FabricError> {
        let failed = |error| FabricError::new("run the program", error);
        let started = self.desk.start(host, words.to_vec(), folder, None);
        let started = started.map_err(failed)?;
        let (ended, end) = channel();
        let wakes = Arc::clone(&self.wakes);
        thread("program", move || {
            let code = started.end.recv().unwrap_or(1);
            let _ = ended.send(code);
            let _ = wakes.write(1);
        })
        .map_err(failed)?;
        loop {
            match end.try_recv() {
                Ok(code) => return Ok(code),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(1),
            }
            let turn = self.emulator.turn(&*self.wakes);
            turn.map_err(|error| FabricError::new("carry frames", error))?;
        }
    }

    /// How late frames were.
    pub fn lag(&self) -> &Lag {
        self.emulator.lag()
    }

    /// The network.
    pub fn fabric(&mut self) -> &mut Fabric {
        self.emulator.fabric()
    }
}

impl Desk {
    fn start(
        &self,
        host: usize,
        words: Vec<OsString>,
        folder: &Path,
        descriptors: Option<[OwnedFd; 3]>,
    ) -> io::Result<Started> {
        let (started, is_started) = channel();
        let job = Job {
            words: [&self.plan.prefix[..], &words].concat(),
            variables: self.plan.variables.clone(),
            folder: folder.to_owned(),
            descriptors,
            started,
        };
        let gone = || io::Error::other("the host is gone");
        self.jobs[host].send(job).map_err(|_| gone())?;
        is_started.recv().map_err(|_| gone())?
    }

    /// Serves the programs of a host.
    fn serve(&self, listener: &OwnedFd) {
        while let Ok(program) = control::accept(listener) {
            let desk = self.clone();
            // Without threads, the program is told that the fabric is gone.
            let _ = thread("request", move || {
                let answer = match desk.handle(&program) {
                    Ok(code) => Answer::Ended(code),
                    Err(error) => Answer::Failed(error.to_string()),
                };
                // The program may be gone.
                let _ = control::send(&program, &answer, &[]);
            });
        }
    }

    fn handle(&self, program: &OwnedFd) -> io::Result<ExitCode> {
        let (request, descriptors) = control::receive(program)?;
        let Request::Run {
            host,
            words,
            folder,
        } = request;
        let number = self.plan.names.iter().position(|name| *name == host);
        let number = number.ok_or_else(|| {
            let names = self.plan.names.join(", ");
            io::Error::other(format!("there is no host {host:?}; there are: {names}"))
        })?;
        let descriptors = <[OwnedFd; 3]>::try_from(descriptors);
        let descriptors =
            descriptors.map_err(|_| io::Error::other("standard input, output and error lack"))?;
        let words = words.into_iter().map(OsString::from).collect();
        let started = self.start(number, words, &PathBuf::from(folder), Some(descriptors))?;
        let watched = program.as_fd().try_clone_to_owned()?;
        let pid = started.pid;
        thread("hangup", move || {
            control::wait_for_end(watched.as_fd());
            // As a terminal does when its user goes. The process may have ended.
            let _ = killpg(pid, Signal::SIGHUP);
        })?;
        Ok(started.end.recv().unwrap_or(1))
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let name = name.to_owned();
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

fn hosts_file(names: &[String]) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
    for (number, name) in (1..).zip(names) {
        text += &format!("{} {name}\n", frame::ipv4(number));
    }
    text
}

fn mpi_hosts(plan: &ClusterPlan) -> String {
    let line = |name: &String| format!("{name} slots={}\n", plan.slots);
    plan.names.iter().map(line).collect()
}

/// The variables that tell MPI of the hosts, and of the way to start programs on them: by `agent`.
pub fn mpi_variables(agent: &str) -> Vec<(OsString, OsString)> {
    [
        ("OMPI_MCA_orte_default_hostfile", HOST_FILE),
        ("OMPI_MCA_plm_rsh_agent", agent),
        ("PRTE_MCA_prte_default_hostfile", HOST_FILE),
        ("PRTE_MCA_plm_ssh_agent", agent),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}
