//! Runs each example to its end, both ends over loopback. The examples check their data, and fail
//! if the data differ.
// Each example is a program of its own, with its own copy of `ends`.
#![allow(clippy::duplicate_mod)]

#[path = "../examples/async_tokio.rs"]
mod async_tokio;
#[path = "../examples/atomics.rs"]
mod atomics;
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

#[track_caller]
fn succeeds(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
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

/// Runs the ends of an example separately, as on two hosts.
#[test]
fn a_server_and_a_client_run_apart() {
    let address = "127.0.0.1:17471".to_owned();
    let words = |role: &str| [role.to_owned(), address.clone()];
    let (as_server, as_client) = (words("server"), words("client"));
    let server = thread::spawn(move || read::run(&as_server));
    // The server may not be listening yet.
    let end = Instant::now() + Duration::from_secs(60);
    let client = loop {
        match read::run(&as_client) {
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

/// The first program in `text`, found by the line that begins it.
fn first_program(text: &str, fence: &str) -> Vec<String> {
    let lines = text.lines().map(|line| match line.strip_prefix("//!") {
        Some(rest) => rest.strip_prefix(' ').unwrap_or(rest).to_owned(),
        None => line.to_owned(),
    });
    let mut lines = lines.skip_while(|line| line != fence);
    lines.next().expect("a program");
    lines.take_while(|line| line != "```").collect()
}

/// The crate's front page has a program that runs as a test. README and guide must show the same
/// one.
#[test]
fn the_program_in_the_readme_is_the_one_that_is_tested() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |name: &str| std::fs::read_to_string(format!("{root}/{name}")).expect(name);
    let tested = first_program(&read("verbs/src/lib.rs"), "```");
    assert!(tested.iter().any(|line| line.starts_with("fn main()")));
    // The guide's first code block belongs into Cargo.toml.
    for name in ["README.md", "docs/for/rust.md"] {
        assert_eq!(first_program(&read(name), "```rust"), tested, "{name}");
    }
}
