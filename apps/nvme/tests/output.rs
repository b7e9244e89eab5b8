//! `nvme-rdma` with output that can't be written.

use std::process::Command;
use testkit::{check_full_and_closed_output, check_full_stderr};

fn nvme_rdma(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvme-rdma"));
    command.args(arguments);
    command
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
    for arguments in [&["--help"][..], &["--version"], &["help", "serve"]] {
        check_full_and_closed_output(|| nvme_rdma(arguments));
    }
    check_full_stderr(&mut nvme_rdma(&["--bogus"]), 2);
}
