//! The tool with messages that can't be written.

use std::process::Command;
use testkit::check_full_stderr;

#[test]
fn a_full_disk_does_not_change_the_exit_code() {
    let mut conformance = Command::new(env!("CARGO_BIN_EXE_roce-conformance"));
    check_full_stderr(conformance.arg("--bogus"), 2);
}
