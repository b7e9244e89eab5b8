//! Programs in C that know what the man pages promise: see `contract.c`, and `shared.c`. They
//! are linked to rdma-core's library, as programs are that users have.

use roce_tests::programs::compiled_or_skip;
use roce_tests::veth::Pair;

use crate::library;

#[test]
fn the_man_pages_are_kept() {
    succeeds("contract.c");
}

#[test]
fn memory_and_objects_are_shared() {
    succeeds("shared.c");
}

/// Runs a program that says nothing, and ends well, if all is right.
fn succeeds(source: &str) {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let Some(program) = compiled_or_skip(&format!("verbs-shim/tests/libibverbs/{source}")) else {
        return;
    };
    let library = library::folder();
    let mut command = pair.near.command(&program);
    command.env("LD_LIBRARY_PATH", library.path());
    let run = command.output().expect("it was just built");
    // If it stays, it is overwritten some day.
    let _ = std::fs::remove_file(&program);
    let told = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {told}{errors}", run.status);
}
