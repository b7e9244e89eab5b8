//! The lines of `impl` blocks.

use super::exports::{Exports, is_public};
use super::text::{attributes, text};
use super::{Lines, Rank, items};
use crate::ModuleId;
use crate::names::Target;
use crate::tree::is_for_tests;
use syn::visit::{self, Visit};
use syn::{ImplItem, ItemImpl, PathArguments, Type};

/// Adds the lines of `block`, which `module` contains.
pub(super) fn add(block: &ItemImpl, module: ModuleId, exports: &Exports<'_>, lines: &mut Lines) {
    let mut paths = Paths {
        exports,
        module,
        all_public: true,
    };
    paths.visit_type(&block.self_ty);
    if let Some((_, path, _)) = &block.trait_ {
        paths.visit_path(path);
    }
    // Users cannot name a private type, nor use a private trait.
    if !paths.all_public {
        return;
    }
    let (home, written) = implementer(&block.self_ty, module, exports);
    let (params, bounds) = items::generics(&block.generics);
    if let Some((negative, path, _)) = &block.trait_ {
        let not = negative.map_or("", |_| "!");
        let trait_name = text(path);
        let attrs = attributes(&block.attrs);
        let mut line = format!("{attrs}impl{params} {not}{trait_name} for {written}{bounds}");
        for item in &block.items {
            if let ImplItem::Type(item) = item {
                line += &format!(" type {} = {};", item.ident, text(&item.ty));
            }
        }
        lines.add(home, Rank::Impl, line);
        return;
    }
    let within = match params.as_str() {
        "" => String::new(),
        _ => format!(" in impl{params} {written}{bounds}"),
    };
    let around = attributes(&block.attrs);
    for item in &block.items {
        associated(item, &home, &around, &within, lines);
    }
}

/// Adds the line of an item of an inherent `impl` block. `around` are the attributes of the block,
/// `within` is its header if it is generic.
fn associated(item: &ImplItem, home: &str, around: &str, within: &str, lines: &mut Lines) {
    let (attrs, path, line) = match item {
        ImplItem::Fn(i) if is_public(&i.vis) => {
            let path = format!("{home}::{}", i.sig.ident);
            let line = items::signature(&i.sig, &path);
            (&i.attrs, path, line)
        }
        ImplItem::Const(i) if is_public(&i.vis) => {
            let path = format!("{home}::{}", i.ident);
            let line = format!("const {path}: {}", text(&i.ty));
            (&i.attrs, path, line)
        }
        ImplItem::Macro(i) => {
            let line = format!("in {home}: {}", text(&i.mac));
            lines.add(home, Rank::Generated, line);
            return;
        }
        _ => return,
    };
    if !is_for_tests(attrs) {
        let attrs = attributes(attrs);
        let line = format!("{around}{attrs}pub {line}{within}");
        lines.add(path, Rank::Definition, line);
    }
}

/// The path under which the lines of an `impl` block are listed, and the type as it is shown.
fn implementer(of: &Type, module: ModuleId, exports: &Exports<'_>) -> (String, String) {
    let written = text(of);
    match of {
        Type::Path(path) if path.qself.is_none() => {
            let home = home(&path.path, module, exports);
            let last = path.path.segments.last().map(|part| &part.arguments);
            match home.map(Option::unwrap_or_default) {
                Some(home) => {
                    let arguments = match last {
                        None | Some(PathArguments::None) => String::new(),
                        Some(arguments) => text(arguments),
                    };
                    let shown = format!("{home}{arguments}");
                    (home, shown)
                }
                None => (written.clone(), written),
            }
        }
        Type::Reference(reference) => (implementer(&reference.elem, module, exports).0, written),
        _ => (written.clone(), written),
    }
}

/// Where the item that `path` names is listed: `None` if the crate does not define it, `Some(None)`
/// if users cannot reach it.
fn home(path: &syn::Path, module: ModuleId, exports: &Exports<'_>) -> Option<Option<String>> {
    let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
    match exports.names.resolve(module, &names)? {
        Target::Item(module, name) => Some(exports.home(module, &name).map(str::to_owned)),
        _ => None,
    }
}

/// Checks whether users can reach all items of the crate that a type or a trait names.
struct Paths<'a> {
    exports: &'a Exports<'a>,
    module: ModuleId,
    all_public: bool,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.all_public &= home(path, self.module, self.exports) != Some(None);
        visit::visit_path(self, path);
    }
}
