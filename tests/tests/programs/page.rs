//! docs/programs.md names each test here, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of this binary's tests.
fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("this test's own folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let module = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let after = text.split("#[test]\nfn ").skip(1);
        names.extend(after.map(|rest| {
            let name = rest.split('(').next().unwrap_or_default();
            format!("{module}::{name}")
        }));
    }
    names.retain(|name| !name.starts_with("page::"));
    names
}

/// The names of tests in the page's tables, in backticks.
fn named() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/programs.md");
    let page = fs::read_to_string(page).expect("the page");
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |part: &&str| part.contains("::") && !part.contains([' ', '/', '\n']);
    quoted.filter(is_test).map(str::to_owned).collect()
}

#[test]
fn the_page_names_each_test_and_no_other() {
    let (tests, named) = (tests(), named());
    assert!(tests.len() > 20, "{tests:?}");
    let missing: Vec<_> = tests.difference(&named).collect();
    let unknown: Vec<_> = named.difference(&tests).collect();
    assert!(missing.is_empty(), "not in docs/programs.md: {missing:?}");
    assert!(unknown.is_empty(), "no such tests: {unknown:?}");
}
