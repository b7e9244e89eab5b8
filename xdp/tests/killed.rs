//! A process that is killed leaves nothing behind, even if a child of it lives on. This test needs
//! root.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use roce_port::Port;
use roce_xdp::{XdpPort, XdpPortConfig};
use support::wait_for;
use testkit::veth::{End, Pair};

/// The environment variable with the victim's interface. The test runs its own executable with this
/// variable.
const VICTIM: &str = "ROCE_XDP_VICTIM";

fn open(interface: &str, index: u32) -> XdpPort {
    XdpPort::open(XdpPortConfig::new(interface, index, 1500)).expect("nobody holds it")
}

/// The victim's main function: opens a port, forks a child, reports that, and waits until it is
/// killed.
#[test]
fn victim() {
    let Some(index) = std::env::var(VICTIM)
        .ok()
        .and_then(|index| index.parse().ok())
    else {
        return;
    };
    let mut port = open("near", index);
    port.activate([10, 91, 0, 1].into()).expect("its own");
    // SAFETY: the child only makes system calls. It ends with the test.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: the buffer is one byte long.
        unsafe {
            libc::read(0, [0_u8; 1].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
    }
    println!("\nopen");
    // The process also ends if its parent ends first.
    let _ = std::io::stdin().read(&mut [0]);
    drop(port);
}

fn has_program(end: &End) -> bool {
    end.run("ip -o link show dev near").contains("xdp")
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let near = &pair.near;
    let start = || {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, near.index().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program")
    };
    let mut victim = near.enter(start);
    let mut pipe = victim.stdin.take().expect("a pipe");
    let said = BufReader::new(victim.stdout.take().expect("a pipe"));
    let is_open = said
        .lines()
        .any(|line| line.is_ok_and(|line| line.ends_with("open")));
    let had_program = has_program(near);
    victim.kill().expect("it lives");
    victim.wait().expect("our own child");
    assert!(
        is_open && had_program,
        "open: {is_open}, program: {had_program}"
    );
    wait_for("the program is gone", || (!has_program(near)).then_some(()));
    // The queue is free, too, within the configuration's `bind_timeout`.
    drop(near.enter(|| open("near", near.index())));
    pipe.write_all(b"end").expect("the child still lives");
}
