//! Unnamed network namespaces.

use crate::needs::{NAMESPACES, find, is_installed};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{panic, process, ptr, thread};

/// Timeout for a link to come up.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A network namespace. It is deleted when this value is dropped, all sockets in it are closed, and
/// all its processes have ended.
#[derive(Debug)]
pub struct Namespace {
    handle: Arc<File>,
}

impl Namespace {
    /// A new namespace, in which no interface is up. Needs root.
    ///
    /// # Errors
    /// If the process may not create one.
    pub fn new() -> io::Result<Self> {
        let create = || {
            // SAFETY: unshare takes a plain number and changes this thread alone.
            check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            File::open("/proc/thread-self/ns/net")
        };
        let handle = thread::spawn(create).join().expect("no panic")?;
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// A path of the namespace, valid as long as this value lives. Nothing outlives the test in
    /// /run/netns.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.handle.as_raw_fd())
    }

    /// Runs `work` on a new thread inside and returns its result. `/sys` shows the namespace's devices.
    ///
    /// # Panics
    /// If `work` panics, with its payload.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            join(&self.handle).expect("root may enter its namespace");
            work()
        };
        let result = thread::scope(|scope| scope.spawn(inside).join());
        result.unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    }

    /// A command to run inside. The program is killed when the thread that spawns it ends. `/sys`
    /// shows the namespace's devices.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let program = program.as_ref();
        let found = program.to_str().and_then(find);
        let mut command = Command::new(found.as_deref().map_or(program, |file| file.as_os_str()));
        let handle = Arc::clone(&self.handle);
        let parent = process::id();
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

    /// Runs a program inside to its end, with `input` on its stdin. Returns its stdout.
    ///
    /// # Errors
    /// If it does not start, or fails; the error contains its stderr.
    pub fn run_with(&self, words: &[&str], input: &str) -> io::Result<String> {
        let line = words.join(" ");
        let failed = |error| io::Error::other(format!("`{line}`: {error}"));
        let mut child = self
            .command(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input reports the reason on stderr.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let what = format!("{}: {}", output.status, errors.trim());
            return Err(failed(io::Error::other(what)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command inside and returns its stdout. Spaces separate its words.
    ///
    /// # Errors
    /// As for [`Namespace::run_with`].
    pub fn run(&self, line: &str) -> io::Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_with(&words, "")
    }

    /// Runs ip(8) inside. Spaces separate the arguments.
    ///
    /// # Errors
    /// As for [`Namespace::run_with`].
    pub fn ip(&self, arguments: &str) -> io::Result<()> {
        self.run(&format!("ip {arguments}")).map(drop)
    }

    /// Sets a variable of the kernel's network (sysctl): `variable` is a path below /proc/sys/net.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set(&self, variable: &str, value: &str) -> io::Result<()> {
        let path = format!("/proc/sys/net/{variable}");
        self.enter(|| std::fs::write(&path, value))
            .map_err(|error| io::Error::other(format!("cannot write {path}: {error}")))
    }

    /// Waits until `interface` can send. The kernel notices after a while that a link is up, and drops
    /// packets until then.
    ///
    /// # Errors
    /// If it does not come up.
    pub fn wait_until_up(&self, interface: &str) -> io::Result<()> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let shown = self.run(&format!("ip -o link show {interface}"))?;
            if shown.contains("state UP") && !shown.contains("qdisc noop ") {
                return Ok(());
            }
            if Instant::now() > end {
                let what = format!("no link after {TIMEOUT:?}: {shown}");
                return Err(io::Error::other(what));
            }
            thread::yield_now();
        }
    }
}

/// `N` new namespaces. If the machine can't have them, the calling test is skipped.
///
/// # Panics
/// If the machine can't have them, with `ROCE_LAB=require`.
pub fn namespaces_or_skip<const N: usize>() -> Option<[Namespace; N]> {
    let reason = if std::env::var_os("ROCE_LAB").is_some_and(|value| value == "off") {
        "ROCE_LAB=off".to_owned()
    } else if !is_installed("ip") {
        "no program `ip`".to_owned()
    } else {
        let all: io::Result<Vec<_>> = (0..N).map(|_| Namespace::new()).collect();
        match all {
            Ok(all) => return all.try_into().ok(),
            Err(error) => format!("no network namespace to be had: {error}"),
        }
    };
    crate::skip(NAMESPACES, &reason);
    None
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
