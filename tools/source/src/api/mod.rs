//! The public API of a crate, as lines of text.

mod exports;
mod impls;
mod invocations;
mod items;
#[cfg(test)]
mod tests;
mod text;

use crate::{DataError, Package, Tree, packages};
use exports::{Exports, public_name};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use syn::Item;

/// The order of lines with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Definition,
    Impl,
    Generated,
}

/// Lines, sorted by path.
#[derive(Default)]
struct Lines(BTreeSet<(String, Rank, String)>);

impl Lines {
    fn add(&mut self, path: impl Into<String>, rank: Rank, line: String) {
        self.0.insert((path.into(), rank, line));
    }
}

/// The public API of a crate: one line for each item that users can reach, for its public parts, and
/// for each trait that it implements. The lines are sorted by path.
///
/// An item is listed under the path of its definition if users can reach it there, or else under the
/// shortest path of a re-export; `pub use a::B as c::B` shows every other path. Paths begin below the
/// crate. Types in signatures are shown as they are written. What a macro generates is shown by the
/// arguments of its invocation.
pub fn public_api(tree: &Tree) -> Vec<String> {
    let exports = Exports::new(tree);
    let mut lines = Lines::default();
    for path in &exports.modules {
        lines.add(path, Rank::Definition, format!("pub mod {path}"));
    }
    for (from, path) in exports.re_exports() {
        lines.add(path, Rank::Definition, format!("pub use {from} as {path}"));
    }
    for (from, path) in &exports.external {
        lines.add(path, Rank::Definition, format!("pub use {from} as {path}"));
    }
    for (id, module) in tree.modules.iter().enumerate() {
        for item in &module.items {
            match item {
                Item::Impl(block) => impls::add(block, id, &exports, &mut lines),
                Item::Macro(item) => match &item.ident {
                    Some(name) if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) => {
                        lines.add(name.to_string(), Rank::Definition, format!("macro {name}!"));
                    }
                    Some(_) => {}
                    None => invocations::add(&item.mac, id, &exports, &mut lines),
                },
                item => {
                    let name = public_name(item);
                    if let Some(home) = name.and_then(|name| exports.home(id, &name)) {
                        items::add(item, home, &mut lines);
                    }
                }
            }
        }
    }
    lines.0.into_iter().map(|(_, _, line)| line).collect()
}

/// The listings of all published crates: the file of each, relative to the root of the project, and
/// its text.
///
/// # Errors
/// If a source file or a manifest can't be used.
pub fn listings() -> Result<Vec<(PathBuf, String)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for Package { name, folder } in packages()? {
        let tree = Tree::read(&folder.join("src/lib.rs"))?;
        let mut text = format!(
            "# The public API of {name}. `cargo run -p roce-source -- --write` writes this file.\n"
        );
        for line in public_api(&tree) {
            text += &line;
            text.push('\n');
        }
        found.push((Path::new("docs/api").join(name + ".txt"), text));
    }
    Ok(found)
}

/// The differences between docs/api and the sources, as messages.
///
/// # Errors
/// See [`listings`]. Also if docs/api can't be read.
pub fn outdated(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let listings = listings()?;
    let mut problems = Vec::new();
    for (path, text) in &listings {
        let written = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let [old, new] = [&written, text].map(|text| text.lines().collect::<BTreeSet<_>>());
        let path = path.display();
        problems.extend(
            new.difference(&old)
                .map(|line| format!("{path}: lacks {line}")),
        );
        problems.extend(
            old.difference(&new)
                .map(|line| format!("{path}: has {line}")),
        );
        if old == new && written != *text {
            problems.push(format!("{path}: the lines are in another order"));
        }
    }
    let folder = root.join("docs/api");
    for entry in std::fs::read_dir(&folder).map_err(|e| DataError::new(&folder, e))? {
        let path = Path::new("docs/api").join(entry?.file_name());
        if !listings.iter().any(|(listed, _)| *listed == path) {
            problems.push(format!(
                "{}: no crate of this name is published",
                path.display()
            ));
        }
    }
    Ok(problems)
}
