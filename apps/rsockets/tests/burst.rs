//! A burst of clients, which confirm only when their program goes on.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roce_rsockets as rs;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::process::{Command, Stdio};

const CLIENTS: usize = 150;
/// Enough for all connections of the clients to be half-open at the same time.
const DESCRIPTORS: u64 = 4096;
/// Tells a process of this test that it has the clients, and of which server.
const SERVER: &str = "BURST_SERVER";

fn socket() -> RawFd {
    rs::socket(rs::Domain::V4).expect("a socket")
}

/// The process with the clients: its program does other things after it has asked for all
/// connections, until it reads a line.
fn run_clients(server: SocketAddr) {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let fd = socket();
            rs::set_nonblocking(fd, true).expect("set");
            // The server may answer the first ones before the call returns.
            if let Err(error) = rs::connect(fd, server) {
                assert_eq!(error.errno(), nix::errno::Errno::EINPROGRESS);
            }
            fd
        })
        .collect();
    println!("\nasked");
    std::io::stdin()
        .read_line(&mut String::new())
        .expect("a line");
    for fd in clients {
        rs::set_nonblocking(fd, false).expect("set");
        let mut polled = [rs::PollFd {
            fd,
            events: libc::POLLOUT,
            revents: 0,
        }];
        rs::poll(&mut polled, None).expect("it polls");
        let sent = rs::send(fd, &[IoSlice::new(b"x")], false);
        assert_eq!(sent.expect("connected"), 1);
    }
    println!("sent");
    std::io::stdin()
        .read_line(&mut String::new())
        .expect("a line");
}

#[test]
fn all_clients_of_a_burst_are_accepted() {
    if let Ok(server) = std::env::var(SERVER) {
        return run_clients(server.parse().expect("an address"));
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if most < DESCRIPTORS {
        return testkit::skip("4096 descriptors", &most.to_string());
    }
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, most).expect("set");
    let listener = socket();
    rs::bind(listener, (Ipv4Addr::LOCALHOST, 0).into()).expect("bound");
    rs::listen(listener, 511).expect("listens");
    let at = rs::local_name(listener).expect("a name");
    let bystander = socket();
    rs::bind(bystander, (Ipv4Addr::LOCALHOST, 0).into()).expect("bound");
    let asks_last = rs::local_name(bystander).expect("a name");
    let accept = move || rs::accept(listener).expect("accepted");
    let first = std::thread::spawn(move || {
        let mut before = Vec::new();
        loop {
            match accept() {
                (fd, from) if from == asks_last => return (before, fd),
                (fd, _) => before.push(fd),
            }
        }
    });
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "all_clients_of_a_burst_are_accepted",
            "--nocapture",
        ])
        .env(SERVER, at.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut expect = |word: &str| {
        let mut lines = said.by_ref().map(|line| line.expect("text"));
        assert!(
            lines.any(|line| line == word),
            "the clients end before {word:?}"
        );
    };
    expect("asked");
    // A client that asks after them gets its connection while they are half open.
    rs::connect(bystander, at).expect("connected");
    let (before, accepted) = first.join().expect("no panic");
    assert!(before.len() < CLIENTS, "none is half-open");
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin).expect("it reads");
    let later = (before.len()..CLIENTS).map(|_| accept().0);
    for fd in before.iter().copied().chain(later) {
        let mut got = [0];
        let flags = rs::ReceiveFlags::default();
        rs::receive(fd, &mut [IoSliceMut::new(&mut got)], flags).expect("received");
        assert_eq!(&got, b"x");
    }
    expect("sent");
    writeln!(stdin).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    for fd in [bystander, accepted, listener] {
        rs::close(fd).expect("closed");
    }
}
