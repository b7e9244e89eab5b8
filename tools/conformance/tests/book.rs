//! The rules and their citations are consistent.

use roce_conformance::{Report, project_root};

#[test]
fn every_rule_has_code_and_tests_and_the_tables_say_so() {
    let root = project_root();
    let report = Report::load(&root).unwrap_or_else(|error| panic!("{error}"));
    let mut problems = report.problems();
    problems.extend(report.outdated(&root));
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
