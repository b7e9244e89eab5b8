//! `cargo xtask` with output that can't be written.

use std::path::Path;
use std::process::Command;
use testkit::{check_full_and_closed_output, check_full_stderr};

fn xtask(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(words);
    command
}

/// Fake files in place of those that take minutes to build.
fn build_fakes(folder: &Path) {
    for name in [
        "roce",
        "nvme-rdma",
        "libroce_verbs_shim.so",
        "libroce_preload.so",
        "libroce_rspreload.so",
    ] {
        let bytes = b"\x7fELF GLIBC_2.34\0 rdma_create_event_channel\0";
        std::fs::write(folder.join(name), bytes).expect("written");
    }
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    build_fakes(folder.path());
    let from = folder.path().to_str().expect("text");
    let out = folder.path().join("out");
    let out = out.to_str().expect("text");
    let dist = || xtask(&["dist", "--from", from, "--out", out]);
    check_full_and_closed_output(dist);
    check_full_and_closed_output(|| xtask(&["--help"]));
    check_full_stderr(&mut dist(), 0);
    check_full_stderr(&mut xtask(&["dist", "--from", "/no/folder"]), 1);
}
