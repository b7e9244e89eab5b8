//! `udpong`, which sends datagrams.
//!
//! Its echo mode is used over loopback only: after a datagram has been late, it can wait for ever for
//! one that was lost.

use roce_tests::lab::{GUEST_IP4, GUEST_RDMA_DEVICE, GuestCommand, HOST_IP4, Lab, SharedLab};
use roce_tests::programs::{built, compiled_by_or_skip, is_installed_or_skip, roce};
use roce_tests::scene::Scene;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;
use tempfile::TempDir;

/// As an ordinary user, over loopback and a cable, in all ways of waiting.
#[test]
fn udpong_runs() {
    let scene = Scene::of(include_str!("scripts/udpong.sh"));
    if let Some(played) = scene.play_or_skip(&["udpong"]) {
        let clients = played.output.matches("== ").count();
        let finished = played.output.matches("\ncustom ").count();
        assert_eq!((clients, finished), (11, 11), "{}", played.output);
        // Four times 100 datagrams of 2000 bytes, which need not have been received.
        played.moved(800_000);
    }
}

/// Timeout of a program in the guest.
const TIMEOUT: Duration = Duration::from_secs(100);

/// The number of datagrams that a client sends. It takes rdma-core some hundred to find the path to a
/// QP, while datagrams go over the UDP socket.
const COUNT: u64 = 5000;

/// Waits until a program has the UDP port 7174 of its network namespace.
const BOUND: &str = "until grep -qi ':1C06 ' /proc/net/udp; do sleep 0.01; done";

#[test]
fn our_client_sends_to_rdma_cores_server() {
    let Some((lab, preload)) = lab() else {
        return;
    };
    let server = udpong_there(&lab, &preload)
        .args(&["-b", &GUEST_IP4.to_string(), "-T", "a"].map(str::to_owned))
        .spawn()
        .expect("it starts");
    let bound = lab.guest(["sh", "-c", BOUND]).output(TIMEOUT);
    bound.expect("it runs").success().expect("bound");
    for size in ["64", "2000"] {
        let before = packets(&lab);
        let client = lab
            .host_command("timeout")
            .arg("60")
            .arg(roce())
            .args(["run", "--require-traffic", "--library"])
            .arg(built("libroce_verbs_shim.so"))
            .args(["--", "udpong", "-s", &GUEST_IP4.to_string()])
            .args(["-T", "b", "-S", size, "-C", &COUNT.to_string()])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&client.stdout).into_owned()
            + &String::from_utf8_lossy(&client.stderr);
        assert!(client.status.success(), "{}: {said}", client.status);
        check(&said, packets(&lab) - before);
    }
    server.kill().expect("it ends");
}

#[test]
fn rdma_cores_client_sends_to_our_server() {
    let Some((lab, preload)) = lab() else {
        return;
    };
    let library = library();
    let server = lab
        .host_command("udpong")
        .args(["-b", &HOST_IP4.to_string(), "-T", "a"])
        .env("LD_LIBRARY_PATH", library.path())
        .spawn();
    let _server = Killed(server.expect("it starts"));
    let bound = lab
        .host_command("timeout")
        .args(["60", "sh", "-c", BOUND])
        .status();
    assert!(bound.expect("it runs").success(), "the server has no port");
    for size in ["64", "2000"] {
        let before = packets(&lab);
        let (host, count) = (HOST_IP4.to_string(), COUNT.to_string());
        let arguments = ["-s", &host, "-T", "b", "-S", size, "-C", &count];
        let client = udpong_there(&lab, &preload)
            .args(&arguments.map(str::to_owned))
            .output(TIMEOUT)
            .expect("it runs")
            .success()
            .expect("success");
        let said = client.stdout_text() + &client.stderr_text();
        check(&said, packets(&lab) - before);
    }
}

/// A program that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both calls do nothing if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for `LD_LIBRARY_PATH`, with the library that was built with this test.
fn library() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let library = built("libroce_verbs_shim.so");
        symlink(library, folder.path().join(name)).expect("a link");
    }
    folder
}

/// The lab, with a path MTU that suits the largest datagrams, and the library to preload there.
fn lab() -> Option<(SharedLab, PathBuf)> {
    if !is_installed_or_skip("udpong") {
        return None;
    }
    let source = "tests/tests/sockets/global_route.c";
    let preload = compiled_by_or_skip("cc", source, &["-shared", "-fPIC", "-libverbs"])?;
    let lab = Lab::get_or_skip()?;
    lab.set_mtu(4200).expect("set");
    Some((lab, preload))
}

/// The command on rdma-core's library and Soft-RoCE, killed after a minute.
fn udpong_there(lab: &Lab, preload: &Path) -> GuestCommand {
    lab.guest(["timeout", "60", "udpong"])
        .env("LD_PRELOAD", &lab.guest_path(preload))
}

/// The number of RoCE packets that the guest's device has sent and received.
fn packets(lab: &Lab) -> u64 {
    let counters = format!(
        "cd /sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1/hw_counters; \
         cat sent_pkts rcvd_pkts"
    );
    let read = lab.guest(["sh", "-c", &counters]).output(TIMEOUT);
    let text = read.expect("it runs").stdout_text();
    text.split_whitespace()
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum()
}

/// The server has received datagrams, and they went from QP to QP.
fn check(said: &str, packets: u64) {
    let line = said.lines().find(|line| line.starts_with("custom "));
    let received = line.and_then(|line| line.split_whitespace().nth(2));
    assert!(received.is_some_and(|received| received != "0"), "{said}");
    assert!(packets >= COUNT / 2, "{packets} RoCE packets: {said}");
}
