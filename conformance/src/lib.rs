//! Which rules the stack follows, what implements each, and which test shows it.
//!
//! The rules are in `rules/*.toml`, one file a chapter, each rule with the section of
//! the specification that it comes from and our own words for it. Code and tests cite
//! them in comments:
//!
//! ```text
//! // rule: 9.7.5.1.4-ghost-ack              at the line that implements it
//! // shows: 9.7.5.1.4-ghost-ack, 9.2-psn    above the #[test] that fails without it
//! // trap: pad-in-icrc                      the same for rules/traps.toml
//! ```
//!
//! [`Report`] puts both together, finds what is missing ([`Report::problems`]) and
//! writes the tables in `docs/` ([`Report::documents`]).
#![warn(missing_docs)]

mod book;
mod cite;
mod render;
mod report;

pub use book::{Book, BookError, Chapter, Rule, Status, Trap};
pub use cite::{Citation, Citations, Kind};
pub use report::Report;

use std::path::PathBuf;

/// The folder of the whole project.
pub fn project_root() -> PathBuf {
    let crate_root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .parent()
        .map_or(crate_root.clone(), PathBuf::from)
}
