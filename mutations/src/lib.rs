//! Deliberate bugs, each of which the tests must find.
//!
//! `list/*.toml` holds small replacements in the sources, each a mistake that somebody
//! could make: a comparison off by one, a check left out, an answer too early. The
//! tool applies one at a time in a copy of the checkout and runs the tests there; a
//! mutation that they pass is a test that is missing.
#![warn(missing_docs)]

mod copy;
mod list;
mod run;

pub use copy::Copy;
pub use list::{List, ListError, Mutation};
pub use run::{Outcome, run};

use std::path::PathBuf;

/// The folder of the whole project.
pub fn project_root() -> PathBuf {
    let crate_root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .parent()
        .map_or(crate_root.clone(), PathBuf::from)
}
