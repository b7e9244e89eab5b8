//! A program in C that knows what the man pages promise: see `contract.c`.

use std::path::Path;
use std::process::Command;

use roce_tests::programs::{is_installed_or_skip, say_skipped};
use roce_tests::veth::Pair;

use crate::library;

#[test]
fn the_man_pages_are_kept() {
    if !is_installed_or_skip("cc") {
        return;
    }
    if !Path::new("/usr/include/infiniband/verbs.h").is_file() {
        return say_skipped("infiniband/verbs.h, which libibverbs-dev has");
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let library = library::folder();
    let binary = library.path().join("contract");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libibverbs/contract.c");
    // Linked to rdma-core's library, as programs are that users have.
    let compiled = Command::new("cc")
        .args(["-Wall", "-Werror", "-O1", "-o"])
        .args([&binary, &source])
        .arg("-libverbs")
        .output()
        .expect("cc runs");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let mut command = pair.near.command(&binary);
    command.env("LD_LIBRARY_PATH", library.path());
    let run = command.output().expect("it was just built");
    let told = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}: {told}{errors}", run.status);
}
