//! The tool with output that can't be written.

use std::process::Command;
use testkit::{check_full_and_closed_output, check_full_stderr};

fn mutations(word: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce-mutations"));
    command.arg(word);
    command
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
    for word in ["--list", "--help"] {
        check_full_and_closed_output(|| mutations(word));
    }
    check_full_stderr(&mut mutations("--bogus"), 2);
}
