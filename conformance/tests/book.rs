//! The rules and what cites them are as they should be.

use roce_conformance::{Report, project_root};

#[test]
fn every_citation_names_a_rule_and_stands_at_a_test_or_at_code() {
    let root = project_root();
    let report = Report::load(&root).unwrap_or_else(|error| panic!("{error}"));
    let problems = report.wrong_citations();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
