//! `roce-benches` with output that can't be written.

use std::process::Command;
use testkit::{check_full_and_closed_output, check_full_stderr};

fn benches(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce-benches"));
    command.args(words);
    command
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
    let recovery = ["recovery", "--messages", "1", "--runs", "1"];
    for words in [&["--help"][..], &recovery] {
        check_full_and_closed_output(|| benches(words));
    }
    let unwritable = [&recovery[..], &["--write", "/no/folder"]].concat();
    check_full_stderr(&mut benches(&unwritable), 1);
}
