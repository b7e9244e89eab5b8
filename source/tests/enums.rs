//! Errors of published crates may get more variants without breaking programs.

use roce_source::{Tree, packages, project_root, public_enums};

#[test]
fn public_errors_are_non_exhaustive() {
    let mut errors = 0;
    let mut closed = Vec::new();
    for folder in packages().unwrap_or_else(|error| panic!("{error}")) {
        let tree = Tree::read(&folder.join("src/lib.rs")).unwrap_or_else(|error| panic!("{error}"));
        let folder = folder
            .strip_prefix(project_root())
            .expect("a crate of the project");
        for found in public_enums(&tree) {
            if !found.path.ends_with("Error") {
                continue;
            }
            errors += 1;
            if !found.may_grow {
                closed.push(format!("{}: {}", folder.display(), found.path));
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
