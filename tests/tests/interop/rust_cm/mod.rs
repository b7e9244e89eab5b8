//! Connections that Rust programs make through the connection manager, with peers that are
//! independent of this API: rdmacm-utils' rping on the kernel's `rdma_cm` with rxe in the guest,
//! and, as a quick variant without a guest, on our librdmacm.so.1. Each is the server once and
//! the client once, with `Listener` and `Connection` at our end, and step by step.
//!
//! Each end of a connection chooses the first PSN of the other end. Two ends of this API would also
//! agree if both mixed up the two PSNs; rping does not.

mod rping;

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::cm::library;
use roce_tests::lab::{GUEST_IP4, HOST_IP4, Lab};
use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth;
use rping::{End, ROUNDS, SIZE, Server, ServerBySteps};

/// Timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(100);

/// rping's arguments: its role, and an address.
fn arguments(host: IpAddr, role: &str) -> Vec<String> {
    let (host, rounds, size) = (host.to_string(), ROUNDS.to_string(), SIZE.to_string());
    let words = ["rping", "-v", "-V", "-d", "-C", &rounds, "-S", &size, "-a"];
    let words = words.into_iter().chain([host.as_str(), role]);
    words.map(str::to_owned).collect()
}

/// Checks that rping's output has the data of each round.
fn check(said: &str) {
    println!("rping: {said}");
    assert_eq!(said.matches("ping data: ").count(), ROUNDS, "{said}");
    assert!(said.contains("ESTABLISHED"), "{said}");
}

// shows: 12.6.5-starting-psn, 12.9-req-rep-rtu, 12.9-dreq
#[test]
fn a_rust_client_and_the_kernels_server() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for ask in [End::ask, End::ask_by_steps] {
        let mut server = lab
            .guest(["stdbuf", "-oL"])
            .args(&arguments(GUEST_IP4.into(), "-s"))
            .spawn()
            .expect("it starts");
        server
            .wait_for_line("rdma_listen", TIMEOUT)
            .expect("it listens");
        lab.enter(|| ask(&End::open(HOST_IP4.into()), GUEST_IP4.into()))
            .expect("inside");
        check(&server.wait(TIMEOUT).expect("it ends").stdout_text());
    }
}

// shows: 12.6.5-starting-psn, 12.9-req-rep-rtu, 12.9-dreq
#[test]
fn a_rust_server_and_the_kernels_client() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    serve_the_kernel(&lab, End::listen, Server::serve);
    serve_the_kernel(&lab, End::listen_by_steps, ServerBySteps::serve);
}

/// The kernel's connection manager drops the probes that a forged REQ causes, so its connection
/// does not end.
// shows: 12.9-stale-req
#[test]
fn a_forged_req_does_not_end_a_connection_with_the_kernel() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    serve_the_kernel(&lab, End::listen_by_steps, |server| {
        server.serve_under_attack(GUEST_IP4.into());
    });
}

fn serve_the_kernel<S: Send>(lab: &Lab, listen: fn(End) -> S, serve: impl FnOnce(S) + Send) {
    let server = lab.enter(|| listen(End::open(HOST_IP4.into())));
    let server = server.expect("inside");
    let client = lab
        .guest(["stdbuf", "-oL"])
        .args(&arguments(HOST_IP4.into(), "-c"))
        .spawn()
        .expect("it starts");
    lab.enter(move || serve(server)).expect("inside");
    check(&client.wait(TIMEOUT).expect("it ends").stdout_text());
}

/// rping on our library, killed when this value is dropped.
struct OnOurLibrary {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    said: String,
    _library: tempfile::TempDir,
}

impl OnOurLibrary {
    fn start(inside: &veth::End, server: IpAddr, role: &str) -> Self {
        let library = library();
        let mut child = inside
            .command("timeout")
            .args(["100", "stdbuf", "-oL"])
            .args(arguments(server, role))
            .env("LD_LIBRARY_PATH", library.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            output,
            said: String::new(),
            _library: library,
        }
    }

    /// Reads its output up to a line with this text, or to its end.
    fn read_to(&mut self, text: &str) {
        loop {
            let from = self.said.len();
            let read = self.output.read_line(&mut self.said).expect("text");
            if read == 0 || self.said[from..].contains(text) {
                return;
            }
        }
    }

    fn check(mut self) {
        self.read_to("nothing of what it prints");
        check(&self.said);
    }
}

impl Drop for OnOurLibrary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two namespaces with a cable between them, if rping can run in them.
fn pair_or_skip() -> Option<veth::Pair> {
    is_installed_or_skip("rping")
        .then(|| veth::Pair::new_or_skip(1500, 1))
        .flatten()
}

// shows: 12.6.5-starting-psn
#[test]
fn a_rust_client_and_the_c_librarys_server() {
    let Some(veth::Pair { near, far }) = pair_or_skip() else {
        return;
    };
    let at = far.address(false);
    for ask in [End::ask, End::ask_by_steps] {
        let mut server = OnOurLibrary::start(&far, at, "-s");
        server.read_to("rdma_listen");
        near.enter(|| ask(&End::open(near.address(false)), at));
        server.check();
    }
}

// shows: 12.6.5-starting-psn
#[test]
fn a_rust_server_and_the_c_librarys_client() {
    let Some(veth::Pair { near, far }) = pair_or_skip() else {
        return;
    };
    serve_the_library(&near, &far, End::listen, Server::serve);
    serve_the_library(&near, &far, End::listen_by_steps, ServerBySteps::serve);
}

// shows: 12.9-stale-req
#[test]
fn a_forged_req_does_not_end_a_connection_with_the_c_library() {
    let Some(veth::Pair { near, far }) = pair_or_skip() else {
        return;
    };
    let client = far.address(false);
    serve_the_library(&near, &far, End::listen_by_steps, |server| {
        server.serve_under_attack(client);
    });
}

fn serve_the_library<S: Send>(
    near: &veth::End,
    far: &veth::End,
    listen: fn(End) -> S,
    serve: impl FnOnce(S) + Send,
) {
    let at = near.address(false);
    let server = near.enter(|| listen(End::open(at)));
    let client = OnOurLibrary::start(far, at, "-c");
    near.enter(move || serve(server));
    client.check();
}
