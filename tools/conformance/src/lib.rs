//! The rules that the stack follows, with the code that implements each and the test that shows it.
//!
//! The rules are in `rules/*.toml`, one file per chapter, each rule with its section of the
//! specification and a description in our own words. Code and tests cite the rules in comments:
//!
//! ```text
//! // rule: 9.7.5.1.4-ghost-ack              at the line that implements it
//! // shows: 9.7.5.1.4-ghost-ack, 9.2-psn    above the #[test] that fails without it
//! // trap: pad-in-icrc                      the same for rules/traps.toml
//! ```
//!
//! [`Report`] combines both, finds omissions ([`Report::problems`]) and generates the tables in
//! `docs/` ([`Report::documents`]).
#![warn(missing_docs)]

mod book;
mod cite;
mod render;
mod report;

pub use book::{Book, Chapter, Rule, Status, Trap};
pub use cite::{Citation, Citations, Kind};
pub use report::Report;
pub use roce_source::project_root;
