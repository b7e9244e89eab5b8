//! Programs of newer Debian releases, which are linked to newer versions of symbols: rdma-core 56
//! and 65. The packages of the release also provide the C library, the loader and the vendors'
//! libraries that perftest loads.

use std::ffi::OsString;
use std::process::Command;

use roce_tests::lab::Release;
use roce_tests::programs::compiled_or_skip;
use roce_tests::veth::Pair;

use super::output_of;
use super::place::{CommandLine, Place};
use crate::library;

/// The packages of the release that the programs need.
const PACKAGES: [&str; 11] = [
    "ibverbs-utils",
    "ibverbs-providers",
    "perftest",
    "libc6",
    "libgcc-s1",
    "libibumad3",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "librdmacm1t64",
    "libibverbs-dev",
];

fn release_or_skip(suite: &str) -> Option<Release> {
    Release::get_or_skip(suite, &PACKAGES)
}

fn command(line: &[OsString]) -> Command {
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    command
}

/// Pingpongs and perftest's programs: the command, and the client's output on success.
const RUNS: [(&str, &str); 8] = [
    ("ibv_rc_pingpong -c -d DEVICE -g GID", "1000 iters"),
    ("ibv_rc_pingpong -e -N -d DEVICE -g GID", "1000 iters"),
    ("ibv_uc_pingpong -n 100 -d DEVICE -g GID", "100 iters"),
    ("ibv_ud_pingpong -c -s 1000 -d DEVICE -g GID", "1000 iters"),
    ("ibv_srq_pingpong -c -d DEVICE -g GID", "1000 iters"),
    ("ibv_xsrq_pingpong -d DEVICE -g GID", "success"),
    ("ib_write_bw -n 100 -p 18515 -d DEVICE -x GID", " 65536 "),
    ("ib_send_lat -c UD -n 100 -p 18515 -d DEVICE -x GID", " 2 "),
];

/// Runs all of [`RUNS`] between two processes of one host.
fn programs(suite: &str) {
    let (Some(release), Some(pair)) = (release_or_skip(suite), Pair::new_or_skip(1500, 1)) else {
        return;
    };
    let place = Place::loopback(&pair.near);
    for (words, expected) in RUNS {
        let words = CommandLine {
            words: words.to_owned(),
            release: Some(release.clone()),
            ..CommandLine::default()
        };
        let output = place.run_command_line(&words, 18515);
        assert!(output.contains(expected), "{suite}: {words:?}: {output}");
    }
}

#[test]
fn programs_of_debian_13() {
    programs("trixie");
}

#[test]
fn programs_of_debian_testing() {
    programs("forky");
}

/// The output of `ibv_devinfo`, which queries the features that are new in each release.
fn devinfo(suite: &str) -> Option<String> {
    let release = release_or_skip(suite)?;
    let library = library::folder();
    let program = release.path("usr/bin/ibv_devinfo");
    let mut command = command(&release.command_line(library.path(), &program));
    command.args(["-v", "-d", "roce_lo"]);
    Some(output_of(command))
}

#[test]
fn ibv_devinfo_of_debian_13() {
    if let Some(output) = devinfo("trixie") {
        assert!(output.contains("::ffff:127.0.0.1, RoCE v2"), "{output}");
    }
}

#[test]
fn ibv_devinfo_of_debian_testing() {
    if let Some(output) = devinfo("forky") {
        assert!(output.contains("::ffff:127.0.0.1, RoCE v2"), "{output}");
        assert!(
            output.contains("100.0 Gbps"),
            "no effective speed in {output}"
        );
    }
}

/// libmlx5 and libefa of each release load, and find none of their devices.
fn libraries_of_vendors(suite: &str) {
    let (Some(release), Some(program)) = (
        release_or_skip(suite),
        compiled_or_skip("verbs-shim/tests/libibverbs/vendors.c"),
    ) else {
        return;
    };
    let library = library::folder();
    output_of(command(&release.command_line(library.path(), &program)));
    // A leftover file does no harm: a later run overwrites it.
    let _ = std::fs::remove_file(&program);
}

#[test]
fn libraries_of_vendors_of_debian_13() {
    libraries_of_vendors("trixie");
}

#[test]
fn libraries_of_vendors_of_debian_testing() {
    libraries_of_vendors("forky");
}
