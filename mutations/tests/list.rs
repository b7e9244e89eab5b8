//! The list keeps up with the sources.

use roce_mutations::{List, project_root};

#[test]
fn every_mutation_applies_exactly_once() {
    let root = project_root();
    let list = List::load(&root).unwrap_or_else(|error| panic!("{error}"));
    assert!(list.0.len() >= 60, "{} mutations", list.0.len());
    let problems = list.problems(&root);
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
