//! Third-party programs, unmodified, on this stack. Each moves and compares data, and the kernel's
//! counter of RoCE packets shows that the data went over RoCE.
//!
//! `ROCE_PROGRAMS=all` runs everything; without it, the slowest programs and those that are not
//! Debian packages are left out. docs/programs.md has the command for each program; `page` checks
//! that it matches these tests.

mod ceph;
mod dapl;
mod disni;
mod erpc;
mod fio;
mod gasnet;
mod ggml;
mod gloo;
mod iscsi;
mod libfabric;
mod mooncake;
mod mpi;
mod nccl;
mod nixl;
mod page;
mod qemu;
mod qperf;
mod rpma;
mod rsockets;
mod sideway;
mod spdk;
mod tcp;
mod three_fs;
mod uccl;
mod ucx;
mod valkey;
mod ways;
mod wheels;

/// Whether tests run that are left out by default. If not, prints a line on stderr.
fn all_or_left_out() -> bool {
    let all = std::env::var_os("ROCE_PROGRAMS").is_some_and(|value| value == "all");
    if !all {
        leave_out("runs with ROCE_PROGRAMS=all");
    }
    all
}

/// Prints a line on stderr that the calling test is left out. `when` says when it runs.
fn leave_out(when: &str) {
    use std::io::Write as _;
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // To the real stderr, past the test harness, which would hide it.
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {test} {when}");
}
