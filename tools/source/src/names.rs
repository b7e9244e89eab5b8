//! Resolves names in modules.

use crate::{ModuleId, Tree};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::BTreeMap;
use syn::{Item, UseTree, Visibility};

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A module of this crate.
    Module(ModuleId),
    /// An item that a module defines.
    Item(ModuleId),
}

/// One name of a `use` declaration.
#[derive(Debug)]
pub(crate) struct Use {
    /// The path as written.
    pub(crate) path: Vec<String>,
    /// The name that it introduces; `None` for `*`.
    pub(crate) name: Option<String>,
    /// Its line in the file.
    pub(crate) line: usize,
    /// Whether it exports the name: `pub use`, `pub(crate) use`.
    pub(crate) is_export: bool,
}

/// The names of one module.
#[derive(Debug, Default)]
struct Scope {
    items: Vec<String>,
    aliases: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Macro invocations define items, whose names may be written nowhere.
    generates: bool,
}

/// The names of all modules of a crate.
pub(crate) struct Names<'a> {
    tree: &'a Tree,
    scopes: Vec<Scope>,
    /// The module that defines each `macro_rules!`, whose names have no module path.
    macros: BTreeMap<String, ModuleId>,
}

/// The longest chain of re-exports to follow; a longer one is a cycle.
const LONGEST_CHAIN: usize = 16;

impl<'a> Names<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        let mut names = Self {
            tree,
            scopes: Vec::new(),
            macros: BTreeMap::new(),
        };
        for (id, module) in tree.modules.iter().enumerate() {
            let mut scope = Scope::default();
            for item in &module.items {
                scope.add(item);
                if let Item::Macro(item) = item
                    && let Some(name) = &item.ident
                {
                    names.macros.insert(name.to_string(), id);
                }
            }
            names.scopes.push(scope);
        }
        names
    }

    /// The target of `path`, written in `module`. `None` for names that are not declared or
    /// imported there: other crates, variables, and type parameters.
    pub(crate) fn resolve(&self, module: ModuleId, path: &[String]) -> Option<Target> {
        self.path_from(module, path, LONGEST_CHAIN)
    }

    /// The module that defines the macro `name`.
    pub(crate) fn macro_module(&self, name: &str) -> Option<ModuleId> {
        self.macros.get(name).copied()
    }

    fn path_from(&self, module: ModuleId, path: &[String], left: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" | "$crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.tree.modules[module].parent?),
            name => self.name_in(module, name, left)?,
        };
        let mut at = start;
        for name in rest {
            at = match at {
                Target::Module(module) => match name.as_str() {
                    "super" => Target::Module(self.tree.modules[module].parent?),
                    "self" => at,
                    name => match self.name_in(module, name, left) {
                        Some(target) => target,
                        None if self.scopes[module].generates => Target::Item(module),
                        None => return None,
                    },
                },
                // After an item come a variant or an associated item.
                Target::Item(..) => return Some(at),
            };
        }
        Some(at)
    }

    fn name_in(&self, module: ModuleId, name: &str, left: usize) -> Option<Target> {
        let left = left.checked_sub(1)?;
        let scope = &self.scopes[module];
        if scope.items.iter().any(|item| item == name) {
            return Some(Target::Item(module));
        }
        if let Some(child) = self.tree.modules[module].children.get(name) {
            return Some(Target::Module(*child));
        }
        if let Some(path) = scope.aliases.get(name) {
            // Otherwise `use name::…;` for a crate of that name would resolve to itself.
            let is_crate = path.len() == 1 && path[0] == name;
            return (!is_crate).then(|| self.path_from(module, path, left))?;
        }
        let in_glob = |glob: &Vec<String>| match self.path_from(module, glob, left)? {
            Target::Module(other) if other != module => self.name_in(other, name, left),
            // Variants of an enum.
            _ => None,
        };
        scope.globs.iter().find_map(in_glob)
    }
}

impl Scope {
    fn add(&mut self, item: &Item) {
        let name = match item {
            Item::Const(i) => &i.ident,
            Item::Enum(i) => &i.ident,
            Item::Fn(i) => &i.sig.ident,
            Item::Static(i) => &i.ident,
            Item::Struct(i) => &i.ident,
            Item::Trait(i) => &i.ident,
            Item::Type(i) => &i.ident,
            Item::Union(i) => &i.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => {
                    self.generates = true;
                    return self.items.extend(declared_names(&item.mac));
                }
            },
            Item::ForeignMod(block) => {
                for item in &block.items {
                    if let syn::ForeignItem::Fn(function) = item {
                        self.items.push(function.sig.ident.to_string());
                    }
                }
                return;
            }
            Item::Use(item) => {
                for used in uses(item) {
                    match used.name {
                        Some(name) => _ = self.aliases.insert(name, used.path),
                        None => self.globs.push(used.path),
                    }
                }
                return;
            }
            _ => return,
        };
        self.items.push(name.to_string());
    }
}

/// The types that a macro invocation declares: the names after the keywords `struct`, `enum`, `fn`
/// (`bitflags! { pub struct Access: u32 { … } }`), or else those before a block of braces
/// (`labelled! { Stat { … } }`).
pub(crate) fn declared_names(invoked: &syn::Macro) -> Vec<String> {
    let mut after_keyword = Vec::new();
    let mut before_block = Vec::new();
    let mut declares = false;
    let mut last = None;
    for token in invoked.tokens.clone() {
        match token {
            TokenTree::Ident(word) => {
                if declares {
                    after_keyword.push(word.to_string());
                }
                declares = ["struct", "enum", "fn", "type", "const"]
                    .iter()
                    .any(|w| word == w);
                last = Some(word.to_string());
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                before_block.extend(last.take());
                declares = false;
            }
            _ => {
                last = None;
                declares = false;
            }
        }
    }
    if after_keyword.is_empty() {
        before_block
    } else {
        after_keyword
    }
}

/// The names that a `use` declaration introduces.
pub(crate) fn uses(item: &syn::ItemUse) -> Vec<Use> {
    let mut all = Vec::new();
    let is_export = !matches!(item.vis, Visibility::Inherited);
    collect(&item.tree, &mut Vec::new(), is_export, &mut all);
    all
}

fn collect(tree: &UseTree, path: &mut Vec<String>, is_export: bool, all: &mut Vec<Use>) {
    let mut found = |ident: &proc_macro2::Ident, path: Vec<String>, name: Option<String>| {
        all.push(Use {
            path,
            name,
            line: ident.span().start().line,
            is_export,
        });
    };
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            collect(&part.tree, path, is_export, all);
            path.pop();
        }
        UseTree::Name(part) if part.ident == "self" => {
            found(&part.ident, path.clone(), path.last().cloned());
        }
        UseTree::Name(part) => {
            let name = part.ident.to_string();
            let path = path.iter().cloned().chain([name.clone()]).collect();
            found(&part.ident, path, Some(name));
        }
        UseTree::Rename(part) => {
            let mut path = path.clone();
            if part.ident != "self" {
                path.push(part.ident.to_string());
            }
            found(&part.ident, path, Some(part.rename.to_string()));
        }
        UseTree::Glob(star) => all.push(Use {
            path: path.clone(),
            name: None,
            line: star.star_token.spans[0].start().line,
            is_export,
        }),
        UseTree::Group(group) => {
            for tree in &group.items {
                collect(tree, path, is_export, all);
            }
        }
    }
}
