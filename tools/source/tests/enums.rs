//! What holds for the errors of every crate that programs use: they may get more variants without
//! breaking programs, and `Debug` prints their message.

use roce_source::{Tree, packages, project_root, public_enums};
use std::collections::BTreeSet;
use syn::{Attribute, Item, ItemImpl, Type};

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
    assert!(errors >= 25, "only {errors} error enums were found");
    assert!(
        closed.is_empty(),
        "these need #[non_exhaustive]:\n{}",
        closed.join("\n")
    );
}

/// A program that returns an error from `main`, or unwraps it, prints it with `Debug`.
#[test]
fn errors_print_their_message_with_debug() {
    let packages = packages().unwrap_or_else(|error| panic!("{error}"));
    let mut folders: Vec<_> = packages.into_iter().map(|package| package.folder).collect();
    folders.extend(["apps/nvme", "apps/rsockets"].map(|name| project_root().join(name)));
    let mut errors = 0;
    let mut derived = Vec::new();
    for folder in folders {
        let root = folder.join("src/lib.rs");
        let tree = Tree::read(&root).unwrap_or_else(|error| panic!("{error}"));
        let items = || tree.modules.iter().flat_map(|module| &module.items);
        let names: BTreeSet<String> = items().filter_map(error_type).collect();
        errors += names.len();
        for item in items() {
            let (name, attributes) = match item {
                Item::Enum(item) => (item.ident.to_string(), &item.attrs),
                Item::Struct(item) => (item.ident.to_string(), &item.attrs),
                _ => continue,
            };
            if names.contains(&name) && attributes.iter().any(derives_debug) {
                derived.push(format!("{}: {name}", folder.display()));
            }
        }
    }
    assert!(errors >= 50, "only {errors} error types were found");
    assert!(
        derived.is_empty(),
        "these derive Debug, which should print what Display prints:\n{}",
        derived.join("\n")
    );
}

/// The type for which `item` implements `Error`, if it does.
fn error_type(item: &Item) -> Option<String> {
    let Item::Impl(ItemImpl {
        trait_: Some((_, path, _)),
        self_ty,
        ..
    }) = item
    else {
        return None;
    };
    let Type::Path(of) = &**self_ty else {
        return None;
    };
    let implements = path.segments.last()?.ident == "Error";
    implements.then(|| of.path.segments.last().map(|name| name.ident.to_string()))?
}

fn derives_debug(attribute: &Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("derive") {
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("Debug");
            Ok(())
        });
    }
    found
}
