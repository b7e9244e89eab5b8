//! Commands whose output can't be written.

use std::fs::{File, OpenOptions};
use std::process::{Command, Output, Stdio};

/// Checks a command that prints on standard output: a full disk is an error with exit code 1 that names
/// standard output, and a reader that has gone changes neither the exit code nor what is on stderr. Calls
/// `command` for each run.
///
/// # Panics
/// If the command behaves otherwise.
pub fn check_full_and_closed_output(command: impl Fn() -> Command) {
    let full = run(command().stdout(full()).stderr(Stdio::piped()));
    let said = String::from_utf8_lossy(&full.stderr);
    let line = format!("{:?}", command());
    assert_eq!(full.status.code(), Some(1), "{line}: {said}");
    let named = "can't write to standard output: No space left on device";
    assert!(said.contains(named), "{line}: {said}");
    assert!(!said.contains("panicked"), "{line}: {said}");

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let closed = run(command().stdout(writer).stderr(Stdio::piped()));
    let read = run(command().stdout(Stdio::null()).stderr(Stdio::piped()));
    let said = String::from_utf8_lossy(&closed.stderr);
    assert_eq!(closed.status, read.status, "{line}: {said}");
    for word in ["standard output", "roken pipe", "panicked"] {
        assert!(!said.contains(word), "{line}: {said}");
    }
}

/// Checks that a command ends with the exit code `code` also if its messages can't be written. A panic
/// has another one.
///
/// # Panics
/// If the command behaves otherwise.
pub fn check_full_stderr(command: &mut Command, code: i32) {
    let full = run(command.stdout(Stdio::null()).stderr(full()));
    assert_eq!(full.status.code(), Some(code), "{command:?}");
}

fn full() -> File {
    let full = OpenOptions::new().write(true).open("/dev/full");
    full.expect("/dev/full")
}

fn run(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).spawn().expect("it starts");
    child.wait_with_output().expect("it ends")
}
