//! The textbook program, in Rust over this stack and in C over rxe in the guest: each is the
//! other's peer, in both roles.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use roce_tests::lab::{GUEST_IP4, GUEST_RDMA_DEVICE, HOST_INTERFACE, HOST_IP4, Lab};
use roce_tests::peer::GidIndex;
use roce_tests::programs;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A file that is deleted at the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A leftover file does no harm: a later run overwrites it.
        let _ = fs::remove_file(&self.0);
    }
}

fn in_c() -> Option<Temporary> {
    programs::compiled_or_skip("verbs-shim/examples/textbook.c").map(Temporary)
}

/// Arguments of both: where they are.
fn place(device: &str) -> [String; 2] {
    [device.to_owned(), (GidIndex::Ip4 as u8).to_string()]
}

fn ours(lab: &Lab) -> std::process::Command {
    let mut command = lab.host_command(Path::new(&programs::built("textbook-under-test")));
    command.args(place(&format!("roce_{HOST_INTERFACE}")));
    command
}

#[test]
fn our_client_in_rust_and_their_server_in_c() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let Some(in_c) = in_c() else { return };
    let mut server = lab
        .guest([lab.guest_path(&in_c.0)])
        .args(&place(GUEST_RDMA_DEVICE))
        .spawn()
        .expect("it starts");
    server
        .wait_for_line("listening", TIMEOUT)
        .expect("it listens");
    let status = ours(&lab)
        .arg(GUEST_IP4.to_string())
        .status()
        .expect("it starts");
    let theirs = server.wait(TIMEOUT).and_then(|output| output.success());
    assert!(status.success(), "{status}; theirs: {theirs:?}");
    let theirs = theirs.expect("success").stdout_text();
    assert!(theirs.ends_with("ok\n"), "{theirs}");
}

#[test]
fn our_server_in_rust_and_their_client_in_c() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let Some(in_c) = in_c() else { return };
    let mut server = ours(&lab)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut output = BufReader::new(server.stdout.take().expect("piped"));
    let mut said = String::new();
    output.read_line(&mut said).expect("a line");
    assert_eq!(said, "listening\n");
    let theirs = lab
        .guest([lab.guest_path(&in_c.0)])
        .args(&place(GUEST_RDMA_DEVICE))
        .arg(HOST_IP4.to_string())
        .output(TIMEOUT)
        .and_then(|output| output.success());
    if theirs.is_err() {
        // It would wait for ever for a client that does not connect.
        let _ = server.kill();
    }
    output.read_to_string(&mut said).expect("text");
    let status = server.wait().expect("ended");
    assert!(status.success(), "{status}; theirs: {theirs:?}");
    assert_eq!(said, "listening\nok\n");
}
