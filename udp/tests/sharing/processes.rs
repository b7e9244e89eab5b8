//! Ports in other processes, some of which are killed or stopped.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use roce_port::Steering;
use roce_stack::Addresses;
use roce_udp::ServiceClaim;

/// The variable that makes a test the main function of another process. Its value says what to do.
pub(super) const ROLE: &str = "ROCE_TEST_SHARING";

/// The main function of a process that has a port.
const OTHER_PROCESS: &str = "processes::other_process";

/// What the line with the status of another process begins with.
const STATUS: &str = "PORT: ";

/// Another process, which most often has a port at an address. It is killed when this value is
/// dropped.
pub(super) struct OtherProcess {
    child: Child,
    pub(super) status: String,
}

impl OtherProcess {
    /// A process that receives management datagrams, and requests for a service that it claims.
    pub(super) fn listening(address: IpAddr, part: u8, service: u32) -> Self {
        let role = format!("{address} {part} {service}");
        let other = Self::start_as(OTHER_PROCESS, &role, None);
        assert_eq!(other.status, "open");
        other
    }

    pub(super) fn start(address: IpAddr, part: u8, uid: Option<u32>) -> Self {
        Self::start_as(OTHER_PROCESS, &format!("{address} {part}"), uid)
    }

    /// A process of the user `uid` with the test `main` as its main function, once that has
    /// [reported its status](report_and_wait).
    pub(super) fn start_as(main: &str, role: &str, uid: Option<u32>) -> Self {
        let mut command = Self::command(main, role);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        Self::spawn(&mut command).expect("started")
    }

    /// A process with a port whose user has no ID in its user namespace; `None` if it may not
    /// create one.
    fn start_in_user_namespace(address: IpAddr, part: u8, uid: u32) -> Option<Self> {
        let mut command = Self::command(OTHER_PROCESS, &format!("{address} {part}"));
        command.uid(uid).gid(uid);
        // SAFETY: the child only makes a system call.
        let command = unsafe {
            command.pre_exec(|| match libc::unshare(libc::CLONE_NEWUSER) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
        };
        Self::spawn(command).ok()
    }

    fn command(main: &str, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command
            .args(["--exact", main, "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn spawn(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let status = lines
            .find_map(|line| Some(line.split_once(STATUS)?.1.to_owned()))
            .expect("a line with the status");
        Ok(Self { child, status })
    }

    fn with_port(address: IpAddr, part: u8) -> Self {
        let other = Self::start(address, part, None);
        assert_eq!(other.status, "open");
        other
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, signal).expect("a process of ours");
        if signal == Signal::SIGSTOP {
            // Wait until all its threads have stopped.
            let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("a child");
            assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
        }
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The main function of the other process: if [`ROLE`] is set, it holds a port until it is killed.
/// Otherwise, as a test, it does nothing.
#[test]
fn other_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut role = role.split(' ');
    let address = role.next().expect("an address").parse();
    let address = address.expect("an address");
    let number = role.next().expect("a part").parse();
    let mut opened = try_open(address, number.expect("a part"));
    let service = role
        .next()
        .map(|service| service.parse().expect("a service"));
    let _claim = service.map(|service| {
        let port = opened.as_mut().expect("a port");
        port.open_general_services().expect("steered");
        port.serve(Addresses::from(None), service).expect("steered");
        ServiceClaim::take(Some(address), 1, service).expect("free")
    });
    let status = match &opened {
        Ok(_) => "open".to_owned(),
        Err(error) => error.to_string(),
    };
    report_and_wait(&status);
}

/// Reports the status of another process to the test, and waits until the test ends.
pub(super) fn report_and_wait(status: &str) {
    println!("{STATUS}{status}");
    std::io::stdout().flush().expect("flushed");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The main function of a process that has a port, and a child that lives until the test ends.
#[test]
fn forking_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (address, part) = role.split_once(' ').expect("an address and a part");
    let address = address.parse().expect("an address");
    let _port = open(address, part.parse().expect("a part"));
    // Its keeper has a connection to another member, too.
    let _second = open(address, 7);
    // SAFETY: the child only makes system calls.
    if unsafe { libc::fork() } == 0 {
        // Ends when the test, which has the other end of this pipe, says so or is gone.
        // SAFETY: the buffer is one byte long.
        unsafe {
            libc::read(0, [0_u8; 1].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
    }
    report_and_wait("open");
}

/// Otherwise, nobody could use the address until the child ends.
#[test]
fn a_child_that_outlives_its_parent_keeps_nothing() {
    let address = fresh_address();
    let role = format!("{address} 0");
    let mut parent = OtherProcess::start_as("processes::forking_process", &role, None);
    let mut pipe = parent.child.stdin.take().expect("piped");
    drop(parent);
    until("all is free", || {
        bound(address).is_empty() && names(address).is_empty()
    });
    let mut ports = [(0, open(address, 0)), (1, open(address, 1))];
    assert_steering(address, &mut ports, &[2, 7]);
    pipe.write_all(b"end").expect("the child still lives");
}

#[test]
fn a_killed_process_does_not_disturb_the_others() {
    let address = fresh_address();
    let killed = [0, 3, 4].map(|part| OtherProcess::with_port(address, part));
    let mut ports: Vec<_> = [1, 2, 5].map(|part| (part, open(address, part))).into();
    let survivor = OtherProcess::with_port(address, 6);
    assert_eq!(bound(address).len(), 7);
    // Packets that wait for a process that ends are discarded.
    let from = sender(address);
    for number in 0..20 {
        from.send(&packet(3, number)).expect("sent");
    }
    drop(killed);
    assert_steering(address, &mut ports, &[0, 3, 4, 8]);
    until("unread packets are discarded", || {
        bound(address)
            .iter()
            .all(|(_, queued)| queued == "00000000")
    });
    // Packets for the ended process are not kept by any socket.
    assert_steering(address, &mut ports, &[0, 3, 4]);
    assert!(
        bound(address)
            .iter()
            .all(|(_, queued)| queued == "00000000")
    );
    // New members take over the parts, with the same sockets.
    let before = bound(address);
    ports.push((3, open(address, 3)));
    assert_eq!(bound(address), before);
    assert_steering(address, &mut ports, &[0, 4]);
    // The others hold the sockets that the last one added, too.
    drop(survivor);
    assert_eq!(bound(address), before);
    ports.push((6, open(address, 6)));
    assert_steering(address, &mut ports, &[0, 4]);
    drop(ports);
    assert_nothing_left(address);
}

#[test]
fn nothing_is_left_when_all_are_killed() {
    let address = fresh_address();
    let all = [2, 0, 1].map(|part| OtherProcess::with_port(address, part));
    assert_eq!(
        (bound(address).len(), names(address).is_empty()),
        (3, false)
    );
    drop(all);
    until("all is gone", || {
        bound(address).is_empty() && names(address).is_empty()
    });
    let mut ports = [(1, open(address, 1))];
    assert_steering(address, &mut ports, &[0, 2]);
}

#[test]
fn the_error_names_a_stopped_process_and_others_continue() {
    let address = fresh_address();
    let stopped = OtherProcess::with_port(address, 0);
    stopped.signal(Signal::SIGSTOP);
    let error = try_open(address, 1)
        .err()
        .expect("nobody answers")
        .to_string();
    let process = format!("process {}", stopped.child.id());
    for part in ["4791", &process, "does not answer", "debugger"] {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
    stopped.signal(Signal::SIGCONT);
    let mut ports = vec![(1, open(address, 1))];
    // As long as one member answers, the others may be stopped.
    stopped.signal(Signal::SIGSTOP);
    ports.push((2, open(address, 2)));
    assert_steering(address, &mut ports, &[3]);
}

/// Whether this process may start processes of other users. If not, reports that `test` is skipped.
pub(super) fn may_change_user(test: &str) -> bool {
    // SAFETY: the call only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        support::skip(test, "root");
    }
    is_root
}

#[test]
fn the_error_for_another_user_names_the_process() {
    if !may_change_user("the_error_for_another_user_names_the_process") {
        return;
    }
    let address = fresh_address();
    let _root = open(address, 0);
    let other = OtherProcess::start(address, 1, Some(12_345));
    let process = format!("process {} of root", std::process::id());
    for part in ["4791", &process, "12345", "another address"] {
        assert!(
            other.status.contains(part),
            "{part:?} is missing: {}",
            other.status
        );
    }
}

/// In a user namespace, another user of the host has the ID that the process itself has there.
#[test]
fn users_without_an_id_in_a_user_namespace_do_not_share_an_address() {
    let test = "users_without_an_id_in_a_user_namespace_do_not_share_an_address";
    if !may_change_user(test) {
        return;
    }
    let address = fresh_address();
    let Some(first) = OtherProcess::start_in_user_namespace(address, 0, 12_345) else {
        return support::skip(test, "ordinary users may not create user namespaces");
    };
    assert_eq!(first.status, "open");
    let second = OtherProcess::start_in_user_namespace(address, 1, 12_346).expect("as before");
    for part in [
        "4791",
        "does not map",
        "another address",
        "have that process stopped",
    ] {
        assert!(
            second.status.contains(part),
            "{part:?} is missing: {}",
            second.status
        );
    }
}
