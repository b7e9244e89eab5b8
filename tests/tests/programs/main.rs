//! Programs that people have, unchanged, on this stack: each moves data that is compared, and
//! the kernel's counter of RoCE packets shows which way the data took.
//!
//! `ROCE_PROGRAMS=all` runs everything; without it, what takes longest or comes from elsewhere
//! than Debian's packages is left out. docs/programs.md says what to type for each program;
//! `page` keeps it and these tests in step.

mod dapl;
mod fio;
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
mod ucx;
mod valkey;
mod ways;
mod wheels;

/// Whether tests run that are left out by default. If not, it is said on stderr.
fn all_or_left_out() -> bool {
    use std::io::Write as _;
    if std::env::var_os("ROCE_PROGRAMS").is_some_and(|value| value == "all") {
        return true;
    }
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // To the real stderr, past the test harness, which would hide it.
    let _ = writeln!(
        std::io::stderr(),
        "LEFT OUT: {test} runs with ROCE_PROGRAMS=all"
    );
    false
}
