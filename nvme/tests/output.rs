//! What `nvme-rdma` does if its output can't be written.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

fn nvme_rdma(arguments: &[&str], stdout: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvme-rdma"))
        .args(arguments)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("it ends")
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
    for arguments in [&["--help"][..], &["--version"], &["help", "serve"]] {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let output = nvme_rdma(arguments, full.expect("/dev/full"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let named = "can't write to standard output: No space left on device";
        assert!(said.contains(named), "{arguments:?}: {said}");

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = nvme_rdma(arguments, writer);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}
