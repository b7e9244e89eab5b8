//! All hosts, the network between them, and what happens to them.

use crate::control::Request;
use crate::desk::{Desk, Message, thread};
use crate::emulator::Emulator;
use crate::error::FabricError;
use crate::host::{Host, HostPlan, Place};
use crate::inherited::{self, Inherited};
use crate::lag::Lag;
use crate::plan::ClusterPlan;
use crate::reaper::{ExitCode, Reaper};
use crate::{space, urgent};
use nix::sys::signal::Signal;
use roce_sim::fabric::{Fabric, HostSpec};
use roce_sim::network::{Change, Event, HostChange};
use roce_stack::Duration;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Someone who watches the network while programs run.
pub trait Observer {
    /// The time between two steps.
    fn every(&self) -> Duration;

    /// Time has passed.
    fn step(&mut self, fabric: &mut Fabric);

    /// Something happened, as the timetable or somebody wanted.
    fn changed(&mut self, fabric: &Fabric, what: &str);

    /// The state of the network, for a program that asks.
    fn state(&mut self, fabric: &mut Fabric) -> String;
}

/// Hosts that are connected. It lives in the first process of its PID namespace: when that ends,
/// all are gone.
#[derive(Debug)]
pub struct Cluster {
    plan: Arc<ClusterPlan>,
    desk: Desk,
    messages: Receiver<Message>,
    emulator: Emulator,
    places: Vec<Place>,
    /// Whether `/proc` has the numbers by which this process can send signals.
    signals: bool,
}

/// The number of the call at which the observer looks; those of events are theirs.
const LOOK: u64 = u64::MAX;

impl Cluster {
    /// Makes the hosts, and connects them. `door` listens for requests from outside of the cluster.
    ///
    /// # Errors
    /// If the system does not allow something.
    pub fn start(plan: ClusterPlan, door: Option<OwnedFd>) -> Result<Self, FabricError> {
        let failed = |error| FabricError::new("start a thread", error);
        let inherited = Inherited::take()
            .map_err(|error| FabricError::new("prepare for signals and descriptors", error))?;
        // Without it, tools see the processes of the system outside.
        let signals = space::show_processes().is_ok();
        let of_host = |event: &&Event| matches!(event.change, Change::Host(..));
        if let Some(event) = plan
            .network
            .events
            .iter()
            .find(of_host)
            .filter(|_| !signals)
        {
            return Err(FabricError::new(
                "an event",
                unreachable(&plan, &event.change),
            ));
        }
        let reaper = Reaper::start().map_err(failed)?;
        let plan = Arc::new(plan);
        let names = &plan.network.hosts;
        let host_plan = |(number, name): (u16, &String)| HostPlan {
            number,
            name: name.clone(),
            mtu: plan.mtu,
            hosts: plan.hosts_file(),
            host_file: plan.mpi_hosts(),
            inherited,
        };
        let mut hosts = (1..)
            .zip(names)
            .map(|host| Host::start(host_plan(host), reaper.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let (sender, messages) = channel();
        let desk = Desk::new(&plan, &hosts, sender)?;
        let mut doors: Vec<OwnedFd> = hosts
            .iter_mut()
            .filter_map(|host| host.control.take())
            .collect();
        doors.extend(door);
        for door in doors {
            let desk = desk.clone();
            thread("desk", move || desk.serve(&door)).map_err(failed)?;
        }
        let taps = hosts.iter_mut().filter_map(|host| host.tap.take());
        let host = HostSpec {
            outside: true,
            ..HostSpec::default()
        };
        let mut fabric = plan.network.build(plan.seed, host);
        for (number, event) in (0..).zip(&plan.network.events) {
            fabric.call_at(roce_stack::Instant::ZERO + event.at, number);
        }
        let emulator = Emulator::new(fabric, taps.collect(), plan.mtu);
        Ok(Self {
            places: hosts.iter().map(|host| host.place).collect(),
            plan,
            desk,
            messages,
            emulator,
            signals,
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
        observer: &mut dyn Observer,
    ) -> Result<ExitCode, FabricError> {
        let failed = |error| FabricError::new("run the program", error);
        let started = self.desk.start(host, words.to_vec(), folder, None);
        let started = started.map_err(failed)?;
        let pid = started.pid;
        thread("signals", move || inherited::forward(pid)).map_err(failed)?;
        let desk = self.desk.clone();
        thread("program", move || {
            desk.tell(Message::Ended(started.end.recv().unwrap_or(1)));
        })
        .map_err(failed)?;
        // Without privilege, frames are late while programs keep all processors busy.
        let _ = urgent::become_urgent();
        self.look(observer);
        loop {
            let turn = self.emulator.turn(self.desk.wakes());
            let turn = turn.map_err(|error| FabricError::new("carry frames", error))?;
            for call in turn.calls {
                match usize::try_from(call).map(|number| self.plan.network.events.get(number)) {
                    Ok(Some(&Event { change, .. })) => {
                        let done = self.change(&change, observer);
                        done.map_err(|error| FabricError::new("an event", error))?;
                    }
                    _ => self.look(observer),
                }
            }
            if !turn.woken {
                continue;
            }
            self.desk.awake();
            while let Ok(message) = self.messages.try_recv() {
                match message {
                    Message::Ended(code) => {
                        observer.step(self.emulator.fabric());
                        return Ok(code);
                    }
                    Message::Asked(request, answer) => {
                        // The program may be gone.
                        let _ = answer.send(self.answer(&request, observer));
                    }
                }
            }
        }
    }

    /// Lets the observer look, and sets the time of the next look.
    fn look(&mut self, observer: &mut dyn Observer) {
        let fabric = self.emulator.fabric();
        observer.step(fabric);
        fabric.call_at(fabric.now() + observer.every(), LOOK);
    }

    fn answer(&mut self, request: &Request, observer: &mut dyn Observer) -> io::Result<String> {
        match request {
            Request::Change { text } => {
                let change = self.plan.network.change(text);
                let change = change.map_err(|error| io::Error::other(error.to_string()))?;
                self.change(&change, observer)?;
                Ok(String::new())
            }
            Request::State => Ok(observer.state(self.emulator.fabric())),
            Request::Run { .. } => Err(io::Error::other("a host runs it")),
        }
    }

    fn change(&mut self, what: &Change, observer: &mut dyn Observer) -> io::Result<()> {
        let fabric = self.emulator.fabric();
        let text = self.plan.network.describe(what);
        if let Some((host, change)) = self.plan.network.apply(fabric, what) {
            let signal = match change {
                HostChange::Freeze => Signal::SIGSTOP,
                HostChange::Thaw => Signal::SIGCONT,
                HostChange::Kill => Signal::SIGKILL,
            };
            if !self.signals {
                return Err(unreachable(&self.plan, what));
            }
            self.places[host.0].signal(signal);
        }
        observer.changed(fabric, &text);
        Ok(())
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

/// A host's processes can't be found.
fn unreachable(plan: &ClusterPlan, change: &Change) -> io::Error {
    io::Error::other(format!(
        "{}: this system allows no /proc of the cluster's own, by which its processes could be found",
        plan.network.describe(change)
    ))
}
