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

pub use book::{Book, Chapter, Rule, Status, Trap};
pub use cite::{Citation, Citations, Kind};
pub use report::Report;
pub use roce_source::project_root;
