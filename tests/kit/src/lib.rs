//! What tests of all crates share: the requirements that a machine may lack, and what becomes of the
//! tests that have them.
//!
//! A test whose requirement is not met calls a function ending in `_or_skip`, or [`skip`]. It then
//! says so on stderr, is counted, and returns. With `ROCE_LAB=require` in the environment, it fails
//! instead. At its end, `cargo test --workspace` prints what was skipped for want of what
//! ([`report`]).
//!
//! [`veth::Pair`] is two hosts with a cable between them, made of [`Namespace`]s.
//!
//! [`Dice`] and [`each_seed`] are for random tests.
//!
//! [`check_full_and_closed_output`] checks the one rule for commands whose output can't be written.
#![warn(missing_docs)]

mod compile;
mod ledger;
mod limits;
mod namespace;
mod needs;
mod output;
mod random;
mod report;
mod signals;
mod version;
pub mod veth;

pub use compile::compile;
pub use limits::descriptors_or_skip;
pub use namespace::{Namespace, namespaces_or_skip};
pub use needs::{
    NAMESPACES, compiles_rdmacm_or_skip, compiles_verbs_or_skip, enters_network_namespace_or_skip,
    find, has_header_or_skip, is_installed, is_installed_or_skip, network_namespace_or_skip,
    root_or_skip, search_path,
};
pub use output::{check_full_and_closed_output, check_full_stderr};
pub use random::{Dice, each_seed, number, seed, seeds};
pub use report::report;
pub use signals::heed_signals;
pub use version::check_version;

use std::io::Write;

/// Whether tests fail, instead of being skipped, where this machine can't run them:
/// `ROCE_LAB=require`.
pub fn required() -> bool {
    std::env::var_os("ROCE_LAB").is_some_and(|value| value == "require")
}

/// Reports on stderr that the calling test is skipped for want of `need`, and counts it. `need` is a
/// short phrase ("root", "tshark") by which [`report`] groups; `why` has the details of this machine,
/// and may be empty.
///
/// # Panics
/// With `ROCE_LAB=require`.
pub fn skip(need: &str, why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    skip_test(&test, need, why);
}

/// As [`skip`], for a test, or a part of one, with the name `test`.
///
/// # Panics
/// With `ROCE_LAB=require`.
pub fn skip_test(test: &str, need: &str, why: &str) {
    let why = match why {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    assert!(
        !required(),
        "{test} needs {need}{why}, and ROCE_LAB=require does not allow skipping it"
    );
    // To the real stderr, past the test harness, which hides what macros print. If stderr is closed,
    // there is no way to report it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test} needs {need}{why}");
    ledger::add(test, need);
}
