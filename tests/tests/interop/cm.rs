//! rdmacm-utils' rping, unmodified: on our librdmacm.so.1 outside, and on the kernel's rdma_cm with
//! rxe in the guest, each as the other's server and as its client. So both connection managers
//! establish and end connections with each other.

use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use roce_tests::lab::{GUEST_IP4, HOST_IP4, Lab};
use roce_tests::programs::{self, is_installed_or_skip};
use tempfile::TempDir;

/// Timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(100);

/// Messages each way.
const ROUNDS: &str = "3";

/// A folder for `LD_LIBRARY_PATH`, with the library that was built with this test.
pub(super) fn library() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let library = programs::built("libroce_verbs_shim.so");
        symlink(library, folder.path().join(name)).expect("a link");
    }
    folder
}

/// The arguments of a client; without the last one, those of a server.
fn arguments(host: std::net::Ipv4Addr, role: &str) -> Vec<String> {
    let host = host.to_string();
    let words = [
        "-v", "-V", "-d", "-C", ROUNDS, "-S", "1000", "-a", &host, role,
    ];
    words.map(str::to_owned).to_vec()
}

// shows: 12.6.5-starting-psn, 12.9-req-rep-rtu, 12.9-dreq
#[test]
fn our_client_connects_with_the_kernels_server() {
    if !is_installed_or_skip("rping") {
        return;
    }
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut theirs = lab
        .guest(["stdbuf", "-oL", "rping"])
        .args(&arguments(GUEST_IP4, "-s"))
        .spawn()
        .expect("it starts");
    theirs
        .wait_for_line("rdma_listen", TIMEOUT)
        .expect("it listens");
    let library = library();
    let ours = ours(&lab, &library, GUEST_IP4, "-c");
    let theirs = theirs.wait(TIMEOUT).expect("it ends");
    check(&ours, &theirs.stdout_text());
}

// shows: 12.6.5-starting-psn, 12.9-req-rep-rtu, 12.9-dreq
#[test]
fn the_kernels_client_connects_with_our_server() {
    if !is_installed_or_skip("rping") {
        return;
    }
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let library = library();
    let (ours, theirs) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| ours(&lab, &library, HOST_IP4, "-s"));
        // The client retries while the server does not listen yet.
        let client = lab
            .guest([
                "sh",
                "-c",
                "for i in 1 2 3 4 5 6 7 8; do \"$@\" && exit; done",
                "sh",
                "rping",
            ])
            .args(&arguments(HOST_IP4, "-c"))
            .output(TIMEOUT);
        (ours.join().expect("it ends"), client.expect("it ends"))
    });
    check(&ours, &theirs.stdout_text());
}

/// What rping on our library printed.
fn ours(lab: &Lab, library: &TempDir, host: std::net::Ipv4Addr, role: &str) -> String {
    let output = lab
        .host_command("timeout")
        .args(["60", "rping"])
        .args(arguments(host, role))
        .env("LD_LIBRARY_PATH", library.path())
        .env("ROCE_LOG", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    println!("ours: {} {said}", output.status);
    said
}

/// Both saw each message, and the end of the connection.
fn check(ours: &str, theirs: &str) {
    println!("theirs: {theirs}");
    for (who, said) in [("ours", ours), ("theirs", theirs)] {
        let pings = said.matches("ping data: ").count();
        assert_eq!(pings.to_string(), ROUNDS, "{who}: {said}");
        assert!(said.contains("ESTABLISHED"), "{who}: {said}");
    }
}
