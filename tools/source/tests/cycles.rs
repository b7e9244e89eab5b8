//! Modules of a crate do not import each other in a cycle.

use roce_source::{Tree, crate_roots, cycles, project_root};

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let root = project_root();
    let mut problems = Vec::new();
    for file in crate_roots(&root).unwrap_or_else(|error| panic!("{error}")) {
        let tree = Tree::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let shown = file.strip_prefix(&root).unwrap_or(&file).display();
        problems.extend(
            cycles(&tree, &root)
                .iter()
                .map(|cycle| format!("{shown}: {cycle}")),
        );
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// A module with files of its own lies in their folder, as mod.rs.
#[test]
fn a_module_lies_in_the_folder_of_its_children() {
    let root = project_root();
    let mut problems = Vec::new();
    for file in crate_roots(&root).unwrap_or_else(|error| panic!("{error}")) {
        let tree = Tree::read(&file).unwrap_or_else(|error| panic!("{error}"));
        for module in &tree.modules {
            let of_children = module
                .children
                .values()
                .map(|child| &tree.modules[*child].file);
            let outside = of_children.filter(|child| **child != module.file);
            let outside = outside.filter(|child| {
                let folder = match child.ends_with("mod.rs") {
                    true => child.parent().and_then(|folder| folder.parent()),
                    false => child.parent(),
                };
                folder != module.file.parent()
            });
            problems.extend(
                outside.map(|child| format!("{} and {}", module.file.display(), child.display())),
            );
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
