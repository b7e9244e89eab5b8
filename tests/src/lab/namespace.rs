//! An unnamed network namespace, kept by one thread of this process.
//!
//! The thread lives as long as the lab. It starts all children that must live as long, because the
//! kernel signals the death of the parent's *thread*.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::{Child, Command, Output, Stdio};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use super::LabError;
use super::machine;
use super::owner;

type Job = Box<dyn FnOnce() + Send>;

/// The namespace and the thread that keeps it.
#[derive(Debug)]
pub(crate) struct Namespace {
    jobs: Mutex<mpsc::Sender<Job>>,
    handle: Arc<File>,
    identity: String,
    owner: String,
}

impl Namespace {
    /// Makes an empty namespace for the lab `owner`.
    pub(crate) fn create(owner: &str) -> Result<Self, LabError> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (reply, created) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("lab-keeper".to_owned())
            .spawn(move || {
                let result = unshare_network().and_then(|()| {
                    let path = "/proc/thread-self/ns/net";
                    let identity = fs::read_link(path)?.to_string_lossy().into_owned();
                    Ok((File::open(path)?, identity))
                });
                if reply.send(result).is_ok() {
                    inbox.into_iter().for_each(|job| job());
                }
            })
            .map_err(|e| LabError::new(format!("cannot start a thread: {e}")))?;
        let (handle, identity) = created
            .recv()
            .map_err(|_| LabError::new("the thread of the network namespace died"))?
            .map_err(|e| LabError::poor_machine(format!("no network namespace to be had: {e}")))?;
        let owner = owner.to_owned();
        Ok(Self {
            jobs: Mutex::new(jobs),
            handle: Arc::new(handle),
            identity,
            owner,
        })
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// A path of the namespace, valid as long as this value lives.
    pub(crate) fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.handle.as_raw_fd()
        )
    }

    /// A command that runs inside, and dies with the thread that spawns it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref();
        let found = program.to_str().and_then(machine::find);
        let mut command = Command::new(found.as_deref().map_or(program, |file| file.as_os_str()));
        command.env(owner::VARIABLE, &self.owner);
        let handle = Arc::clone(&self.handle);
        let parent = std::process::id();
        // SAFETY: the closure runs between fork and exec. It makes system calls
        // and nothing else: no allocation, no lock.
        unsafe {
            command.pre_exec(move || {
                die_with_parent(parent)?;
                join(&handle)
            })
        };
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
        let said = argv.join(" ");
        let failed = |e: io::Error| LabError::new(format!("cannot run `{said}`: {e}"));
        let mut child = self
            .command(argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input reports the reason on stderr.
            let _ = io::Write::write_all(&mut stdin, input.as_bytes());
        }
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().map_err(failed)?;
        if !status.success() {
            let errors = String::from_utf8_lossy(&stderr);
            return Err(LabError::new(format!(
                "`{said}`: {status}: {}",
                errors.trim()
            )));
        }
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }

    /// Runs `work` on a new thread inside.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let result = thread::scope(|scope| {
            scope
                .spawn(|| {
                    join(&self.handle)?;
                    Ok(work())
                })
                .join()
        });
        match result {
            Ok(done) => done
                .map_err(|e: io::Error| LabError::new(format!("cannot enter the namespace: {e}"))),
            Err(panicked) => panic::resume_unwind(panicked),
        }
    }
}

/// Puts the calling thread into a network namespace of its own.
fn unshare_network() -> io::Result<()> {
    // SAFETY: unshare takes a plain number and changes this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    own_sys()
}

/// Puts the calling thread into the network namespace of `handle`. Between fork
/// and exec this is sound: system calls only.
fn join(handle: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open, as `handle` is borrowed; this thread alone
    // changes.
    check(unsafe { libc::setns(handle.as_raw_fd(), libc::CLONE_NEWNET) })?;
    own_sys()
}

/// Gives the calling thread a `/sys` that shows the devices of its network
/// namespace. `/sys` shows the devices of the process that mounted it.
fn own_sys() -> io::Result<()> {
    let mount = |source: &CStr, target: &CStr, kind: &CStr, flags| {
        // SAFETY: all pointers are to strings that outlive the call, or null where
        // mount(2) allows it. Only this thread's own mount namespace changes.
        check(unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                ptr::null(),
            )
        })
    };
    // SAFETY: unshare takes a plain number and changes this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_SLAVE)?;
    match mount(c"sysfs", c"/sys", c"sysfs", 0) {
        // The parent has already mounted the right one.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        result => result,
    }
}

/// Runs between fork and exec. Makes the kernel kill this process when the thread that forked it
/// ends, and fails if that thread has already ended.
fn die_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: prctl with PR_SET_PDEATHSIG takes plain numbers; getppid has no
    // arguments and cannot fail.
    let actual = unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        libc::getppid()
    };
    if u32::try_from(actual) == Ok(parent) {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
