//! The programs in a container with Docker's default profile.
//!
//! `roce run` shows a program its devices in one of three ways. These tests take the first as root
//! (mounts) and the second as an ordinary user (a user namespace); here they run once more and
//! take the third, a preloaded library.

use roce_tests::scene::WAY;
use std::env;
use std::process::Command;

/// The tests that run here unless `ROCE_PROGRAMS` is `all`: one framework for each of the files
/// under /dev, in sysfs and in a library's own search.
const SOME: [&str; 3] = ["ucx_moves", "libfabric_moves_messages_by", "open_mpi_over"];

#[test]
fn programs_run_in_a_default_container() {
    if env::var_os(WAY).is_some() {
        return;
    }
    let all = env::var_os("ROCE_PROGRAMS").is_some_and(|value| value == "all");
    let tests = env::current_exe().expect("a running program has a path");
    let mut command = Command::new(tests);
    command.env(WAY, "container");
    command.args(["--skip", "ways::", "--skip", "page::"]);
    if !all {
        command.args(SOME);
    }
    let output = command.output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!told.contains("running 0 tests"), "{told}");
    // Pass on its messages about skipped tests.
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
}
