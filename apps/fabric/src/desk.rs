//! Where programs ask for something of the cluster.

use crate::control::{self, Answer, Request};
use crate::error::FabricError;
use crate::host::{Host, Job, Start, Started};
use crate::plan::ClusterPlan;
use crate::reaper::ExitCode;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, killpg};
use roce_sim::fabric::HostId;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The time until the next attempt where the system has no descriptor for a program that asks.
const PAUSE: Duration = Duration::from_millis(20);

/// A message to the thread that carries frames.
#[derive(Debug)]
pub(crate) enum Message {
    /// The program has ended.
    Ended(ExitCode),
    /// Somebody wants something of the network.
    Asked(Request, Sender<io::Result<String>>),
}

/// Takes the requests of programs.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    plan: Arc<ClusterPlan>,
    jobs: Vec<Sender<Job>>,
    messages: Sender<Message>,
    wakes: Arc<EventFd>,
}

impl Desk {
    pub(crate) fn new(
        plan: &Arc<ClusterPlan>,
        hosts: &[Host],
        messages: Sender<Message>,
    ) -> Result<Self, FabricError> {
        let wakes = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| FabricError::new("make an eventfd", error))?;
        Ok(Self {
            plan: Arc::clone(plan),
            jobs: hosts.iter().map(Host::jobs).collect(),
            messages,
            wakes: Arc::new(wakes),
        })
    }

    /// Readable when there is a message.
    pub(crate) fn wakes(&self) -> &impl AsFd {
        &*self.wakes
    }

    /// The messages up to now are about to be read.
    pub(crate) fn awake(&self) {
        // It is EAGAIN if there is none.
        let _ = self.wakes.read();
    }

    pub(crate) fn tell(&self, message: Message) {
        // At the end of the fabric nobody listens.
        let _ = self.messages.send(message);
        let _ = self.wakes.write(1);
    }

    /// Starts a program on a host.
    pub(crate) fn start(
        &self,
        host: usize,
        words: Vec<OsString>,
        folder: &Path,
        descriptors: Option<[OwnedFd; 3]>,
    ) -> io::Result<Started> {
        let (started, is_started) = channel();
        let job = Start {
            words: [&self.plan.prefix[..], &words].concat(),
            variables: self.plan.variables_of(HostId(host)),
            folder: folder.to_owned(),
            descriptors,
            started,
        };
        let gone = || io::Error::other("the host is gone");
        self.jobs[host].send(Job::Start(job)).map_err(|_| gone())?;
        is_started.recv().map_err(|_| gone())?
    }

    /// Serves programs, as long as the cluster lives.
    pub(crate) fn serve(&self, listener: &OwnedFd) {
        loop {
            let program = match control::accept(listener) {
                Ok(program) => program,
                // Too many descriptors or too little memory at this moment.
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            let desk = self.clone();
            // Without threads, the program is told that the fabric is gone.
            let _ = thread("request", move || {
                let answer = desk.handle(&program);
                let answer = answer.unwrap_or_else(|error| Answer::Failed(error.to_string()));
                // The program may be gone.
                let _ = control::send(&program, &answer, &[]);
            });
        }
    }

    fn handle(&self, program: &OwnedFd) -> io::Result<Answer> {
        let (request, descriptors) = control::receive(program)?;
        match request {
            Request::Run {
                host,
                words,
                folder,
            } => {
                let code = self.run(program, &host, words, Path::new(&folder), descriptors)?;
                Ok(Answer::Ended(code))
            }
            Request::State => Ok(Answer::Done(
                self.ask_network(Request::State)? + &self.look(),
            )),
            change => self.ask_network(change).map(Answer::Done),
        }
    }

    /// Asks the thread that carries frames, and waits for its answer.
    fn ask_network(&self, request: Request) -> io::Result<String> {
        let (answer, answered) = channel();
        self.tell(Message::Asked(request, answer));
        let gone = |_| io::Error::other("the fabric ends");
        answered.recv().map_err(gone)?
    }

    /// A line about each host.
    fn look(&self) -> String {
        let ask = |jobs: &Sender<Job>| {
            let (answer, answered) = channel();
            // A host that is gone says nothing.
            let _ = jobs.send(Job::Look(self.plan.look, answer));
            answered
        };
        // All look at the same time.
        let answers: Vec<_> = self.jobs.iter().map(ask).collect();
        let names = self.plan.network.hosts.iter();
        let said = names.zip(answers).filter_map(|(name, answered)| {
            let said = answered.recv().ok().filter(|said| !said.is_empty())?;
            Some(format!("{name:<18} {said}\n"))
        });
        let lines: String = said.collect();
        match lines.is_empty() {
            true => lines,
            false => format!("\n{lines}"),
        }
    }

    /// Runs a command on a host until it ends, or until the program that wanted it is gone.
    fn run(
        &self,
        program: &OwnedFd,
        host: &str,
        words: Vec<String>,
        folder: &Path,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<ExitCode> {
        let names = &self.plan.network.hosts;
        let number = names.iter().position(|name| name == host);
        let number = number.ok_or_else(|| {
            let names = names.join(", ");
            io::Error::other(format!("there is no host {host:?}; there are: {names}"))
        })?;
        let descriptors = <[OwnedFd; 3]>::try_from(descriptors);
        let descriptors = descriptors
            .map_err(|_| io::Error::other("standard input, output or error is missing"))?;
        let words = words.into_iter().map(OsString::from).collect();
        let started = self.start(number, words, folder, Some(descriptors))?;
        let watched = program.as_fd().try_clone_to_owned()?;
        let pid = started.pid;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        thread("hangup", move || {
            control::wait_for_end(watched.as_fd());
            // Processes that a command left in the background stay.
            if !ended.load(Ordering::Acquire) {
                // As a terminal does when its user goes, for what is stopped, too.
                let _ = killpg(pid, Signal::SIGHUP);
                let _ = killpg(pid, Signal::SIGCONT);
            }
        })?;
        let code = started.end.recv().unwrap_or(1);
        has_ended.store(true, Ordering::Release);
        Ok(code)
    }
}

pub(crate) fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let name = name.to_owned();
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}
