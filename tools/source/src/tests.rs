use crate::{Tree, cycles, imports};
use std::fs;
use std::path::Path;

/// A crate of the files `(name, text)`.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("written");
    }
    let tree = Tree::read(&folder.path().join("lib.rs")).unwrap_or_else(|e| panic!("{e}"));
    (folder, tree)
}

/// The cycles of a crate, as text.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let (folder, tree) = tree(files);
    let cycles = cycles(&tree, folder.path());
    cycles.iter().map(ToString::to_string).collect()
}

#[test]
fn a_cycle_is_named_with_a_place_for_each_arrow() {
    let found = found(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "\npub struct B(Option<Box<super::c::C>>);"),
        ("c.rs", "pub struct C;\nfn f(_: crate::a::A) {}"),
    ]);
    assert_eq!(
        found,
        ["cycle of 3: a, b, c\
             \n    a.rs:1: a -> b (crate::b::B)\
             \n    b.rs:2: b -> c (super::c::C)\
             \n    c.rs:2: c -> a (crate::a::A)"]
    );
}

#[test]
fn a_re_export_leads_to_the_module_that_defines_the_item() {
    let (_folder, tree) = tree(&[
        (
            "lib.rs",
            "mod a;\nmod b;\npub use a::inner::*;\npub use B as Other;\nuse b::B;",
        ),
        ("a/mod.rs", "pub(crate) mod inner;\npub use inner::Deep;"),
        (
            "a/inner.rs",
            "pub struct Deep;\npub fn f() { let _ = crate::Other; }",
        ),
        (
            "b.rs",
            "use crate::Deep as D;\nuse crate::a as module;\npub struct B;\nfn g(_: D, _: module::Deep) {}",
        ),
    ]);
    let shown: Vec<String> = imports(&tree)
        .iter()
        .map(|import| {
            let [from, to] = [import.from, import.to].map(|id| tree.modules[id].path.clone());
            format!("{from}:{} -> {to}", import.line)
        })
        .collect();
    // Line 5 of the root imports `b::B`, which it re-exports under another name.
    let expected = [
        ":5 -> b",
        "a::inner:2 -> b",
        "b:1 -> a::inner",
        "b:4 -> a::inner",
        "b:4 -> a::inner",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn arguments_of_macros_and_macros_themselves_are_seen() {
    let found = found(&[
        ("lib.rs", "#[macro_use]\nmod a;\nmod b;"),
        (
            "a.rs",
            "macro_rules! m { () => {} }\nfn f() { println!(\"{}\", crate::b::VALUE); }",
        ),
        ("b.rs", "m!();\npub const VALUE: u8 = 1;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("cycle of 2: a, b"), "{found:?}");
}

#[test]
fn folders_count_as_a_whole() {
    // No file imports in a circle, but the folders do.
    let found = found(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a/mod.rs", "pub mod one;\npub mod two;"),
        ("a/one.rs", "use crate::b::one::B;\nfn f(_: B) {}"),
        ("a/two.rs", "pub struct A;"),
        ("b/mod.rs", "pub mod one;\npub mod two;"),
        ("b/one.rs", "pub struct B;"),
        ("b/two.rs", "use crate::a::two::A;\nfn f(_: A) {}"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("cycle of 2: a, b"), "{found:?}");
}

#[test]
fn what_tests_import_and_what_parents_define_does_not_count() {
    let found = found(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod tests;"),
        (
            "a.rs",
            "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }",
        ),
        (
            "b/mod.rs",
            "mod part;\npub struct B(crate::a::A, part::Part);",
        ),
        ("b/part.rs", "pub struct Part(Option<Box<super::B>>);"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_file_that_is_not_rust_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("lib.rs"), "mod gone;").expect("written");
    let error = Tree::read(&folder.path().join("lib.rs")).err();
    let error = error.expect("gone.rs is missing").to_string();
    assert!(error.contains("gone.rs"), "{error}");
    fs::write(folder.path().join("gone.rs"), "fn f() {}\nfn (").expect("written");
    let error = Tree::read(&folder.path().join("lib.rs")).err();
    let error = error.expect("a syntax error").to_string();
    assert!(error.contains("gone.rs: line 2: "), "{error}");
}

#[test]
fn items_that_macros_generate_are_seen() {
    let found = found(&[
        ("lib.rs", "mod a;\nmod b;"),
        (
            "a.rs",
            "macro_rules! m { () => { pub const ALL: u8 = 1; } }\nm!();\nuse crate::b::B;",
        ),
        ("b.rs", "pub struct B;\nconst ONE: u8 = crate::a::ALL;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("cycle of 2: a, b"), "{found:?}");
}
