//! C programs that check the behavior that the man pages specify. They are linked to rdma-core's
//! library, as users' programs are.

use std::path::Path;
use std::process::Command;

use roce_tests::programs::{compiled_or_skip, compiles_rdmacm_or_skip};
use roce_tests::veth::Pair;

use crate::library;

#[test]
fn the_man_pages_are_kept() {
    succeeds("contract.c");
}

#[test]
fn windows_of_implicit_on_demand_regions_are_bound() {
    succeeds("windows.c");
}

#[test]
fn memory_and_objects_are_shared() {
    succeeds("shared.c");
}

/// Cancellation had ended the whole process.
#[test]
fn a_thread_can_be_cancelled_while_it_waits_or_polls() {
    if compiles_rdmacm_or_skip() {
        succeeds("cancelled.c");
    }
}

/// With `ROCE_LOG`, a refused call logs the function, the error, and the reason. A program whose
/// calls keep failing does not flood the log.
#[test]
fn a_refused_call_says_why() {
    let Some(stderr) = run("refused.c", &[("ROCE_LOG", "1")]) else {
        return;
    };
    let lines: Vec<&str> = stderr.lines().collect();
    for part in [
        "roce: ibv_post_send: EINVAL: the QP is in state Reset",
        "roce: ibv_post_send: EINVAL: num_sge is 99, and must be 0 to ",
        "roce: ibv_post_recv: ENOMEM: ",
        "roce: ibv_wr_complete: EOPNOTSUPP: send_flags is 0x100000, ",
    ] {
        let found = lines.iter().any(|line| line.starts_with(part));
        assert!(found, "{part}: {stderr}");
    }
    // Ten lines a second, and 200,000 calls take a few seconds at most.
    let full = lines
        .iter()
        .filter(|line| line.contains("ibv_post_recv"))
        .count();
    assert!((10..2000).contains(&full), "{full} lines: {stderr}");
    // Without the variable, nothing is logged.
    assert_eq!(run("refused.c", &[]).as_deref(), Some(""));
}

/// An error in the environment is reported once, when a program lists devices.
#[test]
fn a_wrong_environment_is_reported() {
    let variables = [("ROCE_FAULT", "loss=1%"), ("ROCE_DEVICES", "near,nosuch")];
    let Some(stderr) = run("refused.c", &variables) else {
        return;
    };
    for part in [
        "roce: warning: ROCE_FAULT is set, but nothing reads a variable of that name: did you mean \
         ROCE_FAULTS?",
        "no device is named \"nosuch\"; there are: ",
    ] {
        assert_eq!(stderr.matches(part).count(), 1, "{part}: {stderr}");
    }
}

/// Runs a program that prints nothing and succeeds if everything is right.
fn succeeds(source: &str) {
    run(source, &[]);
}

/// Runs a program with these environment variables. Returns its stderr, or `None` if the test is
/// skipped.
///
/// # Panics
/// If the program fails.
fn run(source: &str, variables: &[(&str, &str)]) -> Option<String> {
    let pair = Pair::new_or_skip(1500, 1)?;
    let program = compiled_or_skip(&format!("verbs-shim/tests/libibverbs/{source}"))?;
    let library = library::folder();
    let mut command = pair.near.command(&program);
    command.env("LD_LIBRARY_PATH", library.path());
    command.envs(variables.iter().copied());
    Some(run_built(command, &program))
}

/// Runs a program that was compiled for one test, and removes it. Returns its stderr.
///
/// # Panics
/// If the program fails.
pub(crate) fn run_built(mut command: Command, program: &Path) -> String {
    let output = command.output().expect("it was just built");
    // A leftover file does no harm: a later run overwrites it.
    let _ = std::fs::remove_file(program);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}: {stdout}{stderr}",
        output.status
    );
    stderr.into_owned()
}
