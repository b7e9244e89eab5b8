//! The tool with messages that can't be written.

use std::process::Command;
use testkit::check_full_stderr;

#[test]
fn a_full_disk_does_not_change_the_exit_code() {
    let mut source = Command::new(env!("CARGO_BIN_EXE_roce-source"));
    check_full_stderr(source.arg("--bogus"), 2);
}
