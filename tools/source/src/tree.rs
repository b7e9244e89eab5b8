//! The modules of a crate.

use crate::DataError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, Meta};

/// The index of a module in [`Tree::modules`].
pub type ModuleId = usize;

/// A module of a crate, without what only its tests use.
pub struct Module {
    /// Its path below the crate, such as `qp::requester`; empty for the crate itself.
    pub path: String,
    /// The file that contains it.
    pub file: PathBuf,
    /// The module that declares it; `None` for the crate itself.
    pub parent: Option<ModuleId>,
    /// The modules that it declares, by name.
    pub children: BTreeMap<String, ModuleId>,
    /// Its items, except for modules and test code.
    pub items: Vec<Item>,
}

/// The modules of a crate; the crate itself comes first.
pub struct Tree {
    /// All of them, a parent before its children.
    pub modules: Vec<Module>,
}

impl Tree {
    /// Reads a crate, whose root is the file `root`, such as `wire/src/lib.rs`.
    ///
    /// # Errors
    /// A file cannot be read, or is not Rust.
    pub fn read(root: &Path) -> Result<Self, DataError> {
        let mut tree = Self {
            modules: Vec::new(),
        };
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        tree.add_file(None, String::new(), root, &folder)?;
        Ok(tree)
    }

    /// `module`, its parent, the parent's parent, up to the crate.
    pub fn ancestors(&self, module: ModuleId) -> impl Iterator<Item = ModuleId> {
        std::iter::successors(Some(module), |id| self.modules[*id].parent)
    }

    fn add_file(
        &mut self,
        parent: Option<ModuleId>,
        path: String,
        file: &Path,
        folder: &Path,
    ) -> Result<ModuleId, DataError> {
        let text = std::fs::read_to_string(file).map_err(|e| DataError::new(file, e))?;
        let parsed = syn::parse_file(&text).map_err(|e| {
            let line = e.span().start().line;
            DataError::new(file, format_args!("line {line}: {e}"))
        })?;
        self.add(parent, path, file, folder, parsed.items)
    }

    /// Adds a module with its `items`; `folder` holds the files of its children.
    fn add(
        &mut self,
        parent: Option<ModuleId>,
        path: String,
        file: &Path,
        folder: &Path,
        items: Vec<Item>,
    ) -> Result<ModuleId, DataError> {
        let id = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: Vec::new(),
        });
        for item in items {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            let Item::Mod(child) = item else {
                self.modules[id].items.push(item);
                continue;
            };
            let name = child.ident.to_string();
            let child_path = match path.as_str() {
                "" => name.clone(),
                _ => format!("{path}::{name}"),
            };
            let child_folder = folder.join(&name);
            let child_id = match child.content {
                Some((_, items)) => self.add(Some(id), child_path, file, &child_folder, items)?,
                None => {
                    let child_file = named_file(&child.attrs, file).unwrap_or_else(|| {
                        let flat = folder.join(format!("{name}.rs"));
                        let nested = child_folder.join("mod.rs");
                        if nested.exists() { nested } else { flat }
                    });
                    self.add_file(Some(id), child_path, &child_file, &child_folder)?
                }
            };
            self.modules[id].children.insert(name, child_id);
        }
        Ok(id)
    }
}

fn named_file(attributes: &[Attribute], declared_in: &Path) -> Option<PathBuf> {
    let path = attributes.iter().find(|a| a.path().is_ident("path"))?;
    let Meta::NameValue(pair) = &path.meta else {
        return None;
    };
    let syn::Expr::Lit(literal) = &pair.value else {
        return None;
    };
    let syn::Lit::Str(name) = &literal.lit else {
        return None;
    };
    Some(declared_in.parent()?.join(name.value()))
}

/// Whether what has these attributes is compiled for tests and fuzz targets only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("test") {
            return true;
        }
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        let tokens = list.tokens.to_string().replace(' ', "");
        let for_tests = ["test", "fuzzing", "any(test,fuzzing)"].contains(&tokens.as_str())
            || tokens.starts_with("all(test,");
        list.path.is_ident("cfg") && for_tests
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}
