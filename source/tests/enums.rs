//! Errors of published crates may get more variants without breaking programs.

use roce_source::{Tree, packages, public_enums};

#[test]
fn public_errors_are_non_exhaustive() {
    let mut errors = 0;
    let mut closed = Vec::new();
    for package in packages().unwrap_or_else(|error| panic!("{error}")) {
        let root = package.folder.join("src/lib.rs");
        let tree = Tree::read(&root).unwrap_or_else(|error| panic!("{error}"));
        for found in public_enums(&tree) {
            if !found.path.ends_with("Error") {
                continue;
            }
            errors += 1;
            if !found.may_grow {
                closed.push(format!("{}: {}", package.name, found.path));
            }
        }
    }
    assert!(errors >= 30, "only {errors} error enums were found");
    assert!(
        closed.is_empty(),
        "these need #[non_exhaustive]:\n{}",
        closed.join("\n")
    );
}
