//! The paths at which users of a crate reach its items.

use crate::names::{Names, Target, declared_names, uses};
use crate::{ModuleId, Tree};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, Visibility};

/// What users of a crate can reach.
pub(super) struct Exports<'a> {
    pub(super) tree: &'a Tree,
    pub(super) names: Names<'a>,
    /// The paths of each item, by the module that defines it and its name there.
    items: BTreeMap<(ModuleId, String), BTreeSet<String>>,
    /// The paths of public modules.
    pub(super) modules: BTreeSet<String>,
    /// Names that are defined elsewhere: the path there, and the path here.
    pub(super) external: BTreeSet<(String, String)>,
}

impl<'a> Exports<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        let mut exports = Self {
            tree,
            names: Names::new(tree),
            items: BTreeMap::new(),
            modules: BTreeSet::new(),
            external: BTreeSet::new(),
        };
        exports.visit(0, "", &mut Vec::new());
        exports
    }

    /// The path under which an item is listed: that of its definition if users can reach it there,
    /// or else the shortest. `None` if users cannot reach the item.
    pub(super) fn home(&self, module: ModuleId, name: &str) -> Option<&str> {
        let paths = self.items.get(&(module, name.to_owned()))?;
        let defined = join(&self.tree.modules[module].path, name);
        let home = paths.get(&defined).or_else(|| {
            let length = |path: &&String| path.matches("::").count();
            paths.iter().min_by_key(length)
        });
        home.map(String::as_str)
    }

    /// The other paths of items: the home, and the path.
    pub(super) fn re_exports(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().flat_map(|((module, name), paths)| {
            let home = self.home(*module, name).unwrap_or_default();
            let others = paths.iter().filter(move |path| *path != home);
            others.map(move |path| (home, path.as_str()))
        })
    }

    /// Adds what `module` exports, for users that reach it at `prefix`. `outer` are the modules
    /// through which the path leads.
    fn visit(&mut self, module: ModuleId, prefix: &str, outer: &mut Vec<ModuleId>) {
        if outer.contains(&module) {
            return;
        }
        outer.push(module);
        let tree = self.tree;
        for item in &tree.modules[module].items {
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    for used in uses(item) {
                        self.re_export(module, &used.path, used.name.as_deref(), prefix, outer);
                    }
                }
                Item::Macro(item) if item.ident.is_none() => {
                    for name in declared_names(&item.mac) {
                        self.add_item(module, name.clone(), join(prefix, &name));
                    }
                }
                _ => {
                    if let Some(name) = public_name(item) {
                        self.add_item(module, name.clone(), join(prefix, &name));
                    }
                }
            }
        }
        for (name, child) in &tree.modules[module].children {
            if tree.modules[*child].is_public {
                let path = join(prefix, name);
                self.modules.insert(path.clone());
                self.visit(*child, &path, outer);
            }
        }
        outer.pop();
    }

    /// Adds what `pub use path as name` in `module` exports; without a name, `pub use path::*`.
    fn re_export(
        &mut self,
        module: ModuleId,
        path: &[String],
        name: Option<&str>,
        prefix: &str,
        outer: &mut Vec<ModuleId>,
    ) {
        let here = name.map_or(prefix.to_owned(), |name| join(prefix, name));
        match self.names.resolve(module, path) {
            Some(Target::Module(other)) => {
                if name.is_some() {
                    self.modules.insert(here.clone());
                }
                self.visit(other, &here, outer);
            }
            Some(Target::Item(other, defined)) if name.is_some() => {
                self.add_item(other, defined, here);
            }
            // The name can be one that a macro declares. A star stands for variants.
            found => {
                let path = match found {
                    Some(Target::External(path)) => path.join("::"),
                    _ => path.join("::"),
                };
                self.external.insert(match name {
                    Some(_) => (path, here),
                    None => (path + "::*", join(&here, "*")),
                });
            }
        }
    }

    fn add_item(&mut self, module: ModuleId, name: String, path: String) {
        self.items.entry((module, name)).or_default().insert(path);
    }
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

pub(super) fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        _ => format!("{prefix}::{name}"),
    }
}

/// The name of an item that is declared `pub`.
pub(super) fn public_name(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Const(i) => (&i.vis, &i.ident),
        Item::Enum(i) => (&i.vis, &i.ident),
        Item::Fn(i) => (&i.vis, &i.sig.ident),
        Item::Static(i) => (&i.vis, &i.ident),
        Item::Struct(i) => (&i.vis, &i.ident),
        Item::Trait(i) => (&i.vis, &i.ident),
        Item::Type(i) => (&i.vis, &i.ident),
        Item::Union(i) => (&i.vis, &i.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}
