//! Runs each example to its end, both ends over loopback. The examples check their data, and fail
//! if the data differ.
// Each example is a program of its own, with its own copy of `ends`.
#![allow(clippy::duplicate_mod)]

#[path = "../examples/async_tokio.rs"]
mod async_tokio;
#[path = "../examples/atomics.rs"]
mod atomics;
#[path = "../examples/client_server.rs"]
mod client_server;
#[path = "../examples/connection_manager.rs"]
mod connection_manager;
#[path = "../examples/multicast.rs"]
mod multicast;
#[path = "../examples/persistent.rs"]
mod persistent;
#[path = "../examples/read.rs"]
mod read;
#[path = "../examples/send_receive.rs"]
mod send_receive;
#[path = "../examples/write_with_immediate.rs"]
mod write_with_immediate;

use std::thread;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[track_caller]
fn succeeds(result: Outcome) {
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn send_receive_runs() {
    succeeds(send_receive::run(&[]));
}

#[test]
fn write_with_immediate_runs() {
    succeeds(write_with_immediate::run(&[]));
}

#[test]
fn persistent_runs() {
    succeeds(persistent::run(&[]));
}

#[test]
fn read_runs() {
    succeeds(read::run(&[]));
}

#[test]
fn atomics_runs() {
    succeeds(atomics::run(&[]));
}

#[test]
fn multicast_runs() {
    succeeds(multicast::run(&[]));
}

#[test]
fn connection_manager_runs() {
    succeeds(connection_manager::run(&[]));
}

#[test]
fn async_tokio_runs() {
    succeeds(async_tokio::run(&[]));
}

#[test]
fn a_server_and_a_client_run_apart() {
    run_apart("127.0.0.1:17471", read::run);
}

#[test]
fn client_server_runs() {
    run_apart("127.0.0.1:17473", client_server::run);
}

/// Runs the ends of an example separately, as on two hosts.
fn run_apart(address: &str, run: fn(&[String]) -> Outcome) {
    let words = |role: &str| [role.to_owned(), address.to_owned()];
    let (as_server, as_client) = (words("server"), words("client"));
    let server = thread::spawn(move || run(&as_server));
    // The server may not be listening yet.
    let end = Instant::now() + Duration::from_secs(60);
    let client = loop {
        match run(&as_client) {
            Err(error) if error.to_string().contains("no program listens") => {
                assert!(Instant::now() < end, "{error}");
            }
            result => break result,
        }
    };
    succeeds(client);
    succeeds(server.join().expect("no panic"));
}

#[test]
fn wrong_arguments_are_explained() {
    let error = read::run(&["sever".to_owned()]).expect_err("no such role");
    assert!(error.to_string().contains("server ADDRESS:PORT"), "{error}");
}

/// The programs in `text`, whose first lines are `fence`.
fn programs(text: &str, fence: &str) -> Vec<Vec<String>> {
    let lines = text.lines().map(|line| match line.strip_prefix("//!") {
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest).to_owned(),
        None => line.to_owned(),
    });
    let mut programs = Vec::new();
    let mut lines = lines.peekable();
    while lines.by_ref().any(|line| line == fence) {
        programs.push(lines.by_ref().take_while(|line| line != "```").collect());
    }
    programs
}

fn read_file(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::read_to_string(format!("{root}/{name}")).expect(name)
}

/// The crate's front page has a program that runs as a test. The README must show the same one.
#[test]
fn the_program_in_the_readme_is_the_one_that_is_tested() {
    let tested = programs(&read_file("verbs/src/lib.rs"), "```").swap_remove(0);
    assert!(tested.iter().any(|line| line.starts_with("fn main()")));
    assert_eq!(programs(&read_file("README.md"), "```rust"), [tested]);
}

/// The guide's server and client are an example's, which runs as a test.
#[test]
fn the_server_and_the_client_in_the_guide_are_the_ones_that_are_tested() {
    let tested = read_file("verbs/examples/client_server.rs");
    let shown = programs(&read_file("docs/rust.md"), "```rust");
    assert_eq!(shown.len(), 2, "a server and a client");
    for (program, begin) in shown.iter().zip(["fn server(", "fn client("]) {
        let text = program.join("\n") + "\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(
            tested.contains(&text),
            "this is not in the example:\n{text}"
        );
    }
}
