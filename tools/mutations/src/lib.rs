//! Deliberate bugs, each of which the tests must detect.
//!
//! `list/*.toml` holds small replacements in the sources, each of which is a plausible mistake: a
//! comparison off by one, a missing check, a premature answer. Further ones come from
//! cargo-mutants, which generates them mechanically. The tool makes one at a time in a copy of the
//! checkout and runs the tests there. A mutation that passes the tests shows that a test is
//! missing.
#![warn(missing_docs)]
// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod all_in_one;
mod copy;
mod edit;
mod embed;
mod explained;
mod list;
mod one_by_one;
mod programs;
mod results;
mod run;

pub use all_in_one::AllInOne;
pub use copy::Copy;
pub use edit::Edit;
pub use explained::{Explained, Explanation};
pub use list::{List, Mutation};
pub use one_by_one::OneByOne;
pub use results::Results;
pub use roce_source::project_root;
pub use run::{Outcome, Runner};

/// The modules for cargo-mutants: packet sequence numbers, the ICRC, opcodes, and both halves of a
/// QP.
pub const MODULES: &[&str] = &[
    "wire/src/psn/mod.rs",
    "wire/src/icrc/mod.rs",
    "wire/src/opcode/mod.rs",
    "stack/src/qp/requester/**",
    "stack/src/qp/responder/**",
];
