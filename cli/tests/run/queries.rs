//! Programs that only query devices must not disturb the network.

use super::programs::{installed, library};
use super::*;

/// Runs the program in the arguments with its system calls traced, in its own network namespace
/// whose default route leads through a cable.
const ASK: &str = "
    set -e
    ip link set lo up
    ip link add near type veth peer name far
    ip address add 10.9.9.1/24 dev near
    ip link set near up
    ip link set far up
    ip route add default via 10.9.9.2
    exec \"$ROCE\" run --library \"$LIBRARY\" -- \
        strace -f -qq -s 64 -o \"$TRACE\" -e trace=bpf,socket,bind,sendto,sendmsg,sendmmsg \"$@\"";

/// The output and the system calls of a program.
struct Asked {
    said: String,
    calls: String,
}

fn ask(datapath: &str, program: &[&str]) -> Asked {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", ASK, "sh"])
        .args(program)
        .env("ROCE", ROCE)
        .env("LIBRARY", library())
        .env("TRACE", &trace)
        .env("ROCE_DATAPATH", datapath)
        .env_remove("ROCE_DEVICES")
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    Asked {
        said: said(&output),
        calls: fs::read_to_string(trace).expect("strace writes it"),
    }
}

/// The calls that contain any of these words.
fn with<'a>(calls: &'a str, words: &[&str]) -> Vec<&'a str> {
    let has = |line: &&str| words.iter().any(|word| line.contains(word));
    calls.lines().filter(has).collect()
}

/// System calls that a program must not make if it only queries.
const TOUCHES: [&str; 6] = [
    "BPF_LINK_CREATE",
    "BPF_PROG_LOAD",
    "AF_XDP",
    "RTM_NEW",
    "RTM_DEL",
    "RTM_SET",
];

/// The calls that bind sockets to the RoCE port.
const PORT: &str = "htons(4791)";

/// Checks that the program sees the device, and makes no system call that contains any of these
/// words.
#[track_caller]
fn does_none(datapath: &str, program: &[&str], of: &[&str]) {
    let asked = ask(datapath, program);
    let is_seen = asked.said.contains("roce_near");
    assert!(
        is_seen,
        "{program:?} does not see the device: {}",
        asked.said
    );
    // The trace is of the right processes.
    assert!(asked.calls.contains("AF_NETLINK"), "{}", asked.calls);
    let touched = with(&asked.calls, of);
    assert_eq!(touched, [""; 0], "{datapath} {program:?}");
}

#[track_caller]
fn touches_nothing(datapath: &str, program: &[&str]) {
    let all: Vec<&str> = TOUCHES.into_iter().chain([PORT]).collect();
    does_none(datapath, program, &all);
}

fn can_trace(test: &str, program: &str) -> bool {
    if !nix::unistd::geteuid().is_root() {
        skip(test, "root");
        return false;
    }
    installed(test, &["strace", "ip", "unshare", program])
}

#[test]
fn ibv_devinfo_touches_no_interface() {
    if can_trace("ibv_devinfo_touches_no_interface", "ibv_devinfo") {
        for datapath in ["auto", "xdp"] {
            touches_nothing(datapath, &["ibv_devinfo", "-v"]);
        }
    }
}

/// fi_info creates QPs, and binds connection manager IDs to each address.
#[test]
fn fi_info_touches_no_interface() {
    if can_trace("fi_info_touches_no_interface", "fi_info") {
        for datapath in ["auto", "xdp"] {
            touches_nothing(datapath, &["fi_info", "-p", "verbs"]);
        }
    }
}

/// ucx_info creates address handles, which do not start the datapath, and moves a UD QP of each
/// device to RTR. Peers can send to that QP, so the device opens sockets. `auto` does not attach an
/// XDP program, since the veth driver copies and a default route leads through the interface.
#[test]
fn ucx_info_attaches_no_program() {
    if can_trace("ucx_info_attaches_no_program", "ucx_info") {
        does_none("auto", &["ucx_info", "-d"], &TOUCHES);
    }
}
