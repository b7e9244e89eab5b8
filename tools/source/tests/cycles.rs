//! Modules of a crate do not import each other in a cycle.

use roce_source::{Tree, crate_roots, cycles, project_root};

/// The cycles that still exist: the crate's folder and the modules. The test fails if one of these
/// cycles is gone or has lost a module, so the list can only shrink.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "verbs-shim",
        &[
            "ah", "channel", "context", "cq", "dm", "dmabuf", "domain", "events", "import", "mr",
            "pd", "prefetch", "qp", "query", "srq", "xrc",
        ],
    ),
    (
        "verbs-shim",
        &[
            "rdmacm::accept",
            "rdmacm::arrival",
            "rdmacm::attributes",
            "rdmacm::channel",
            "rdmacm::connect",
            "rdmacm::device",
            "rdmacm::endpoint",
            "rdmacm::event",
            "rdmacm::id",
            "rdmacm::path",
            "rdmacm::qp",
            "rdmacm::resolve",
            "rdmacm::srq",
            "rdmacm::table",
        ],
    ),
];

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let root = project_root();
    let mut problems = Vec::new();
    let mut known: Vec<_> = KNOWN.to_vec();
    for file in crate_roots(&root).unwrap_or_else(|error| panic!("{error}")) {
        let tree = Tree::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let folder = file.parent().and_then(|source| source.parent());
        let name = folder.and_then(|folder| folder.strip_prefix(&root).ok());
        let name = name.expect("a folder of the project").display().to_string();
        for cycle in cycles(&tree, &root) {
            let listed = known
                .iter()
                .position(|(at, modules)| *at == name && *modules == cycle.modules);
            match listed {
                Some(at) => _ = known.swap_remove(at),
                None => problems.push(format!("{name}: {cycle}")),
            }
        }
    }
    for (name, modules) in known {
        let modules = modules.join(", ");
        problems.push(format!(
            "{name}: no longer a cycle, so take it out of KNOWN: {modules}"
        ));
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
