//! The list matches the sources, and its page matches the list.

use roce_mutations::{Edit, List, project_root};

#[test]
fn every_mutation_applies_exactly_once() {
    let root = project_root();
    let list = List::load(&root).unwrap_or_else(|error| panic!("{error}"));
    assert!(list.0.len() >= 60, "{} mutations", list.0.len());
    let problems = list.problems(&root);
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn every_mutation_is_in_a_library() {
    let root = project_root();
    let list = List::load(&root).unwrap_or_else(|error| panic!("{error}"));
    for mutation in &list.0 {
        let edit = Edit::of(mutation, &root).unwrap_or_else(|error| panic!("{error}"));
        let library = edit.crate_root();
        assert!(root.join(&library).is_file(), "{}: no {library}", edit.name);
    }
}

#[test]
fn the_page_says_how_many_mutations_there_are() {
    let root = project_root();
    let list = List::load(&root).unwrap_or_else(|error| panic!("{error}"));
    let page = std::fs::read_to_string(root.join("docs/generated/mutations.md")).expect("the page");
    // Rounded down to tens, so that one more mutation does not change the page.
    let tens = (list.0.len() - 1) / 10 * 10;
    let sentence = format!("`tools/mutations/list` holds more than {tens} small replacements");
    assert!(
        page.contains(&sentence),
        "docs/generated/mutations.md is out of date: there are {} mutations, so it should say: {sentence}",
        list.0.len()
    );
}
