//! The tables of README files name only existing files and folders.

use roce_source::{crate_folders, project_root};
use std::fs;
use std::path::Path;

/// The first cells of the rows of tables that begin with "| where |".
fn places(text: &str) -> Vec<&str> {
    let mut in_table = false;
    let mut cells = Vec::new();
    for line in text.lines() {
        if line.starts_with("| where |") {
            in_table = true;
        } else if !line.starts_with('|') {
            in_table = false;
        } else if in_table && !line.starts_with("|---") {
            cells.extend(line.split('|').nth(1));
        }
    }
    cells
}

/// The paths in a cell.
fn paths(cell: &str) -> impl Iterator<Item = &str> {
    let words = cell.split(", ").map(|word| word.trim().trim_matches('`'));
    words.filter(|word| word.contains('/') && !word.contains(' '))
}

#[test]
fn tables_name_what_is_there() {
    let root = project_root();
    let mut missing = Vec::new();
    let mut named = 0;
    for folder in crate_folders(&root).unwrap_or_else(|error| panic!("{error}")) {
        let Ok(text) = fs::read_to_string(folder.join("README.md")) else {
            continue;
        };
        let is_there = |path: &str| {
            let near = |base: &Path| base.join(path).exists();
            near(&folder) || near(&root)
        };
        for path in places(&text).into_iter().flat_map(paths) {
            named += 1;
            if !is_there(path) {
                missing.push(format!("{}/README.md: {path}", folder.display()));
            }
        }
    }
    assert!(named >= 15, "only {named} paths were found in tables");
    assert!(
        missing.is_empty(),
        "these do not exist:\n{}",
        missing.join("\n")
    );
}
