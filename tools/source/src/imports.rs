//! Finds the items of other modules that each module uses.

use crate::names::{Names, Target, uses};
use crate::tree::is_for_tests;
use crate::{ModuleId, Tree};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A place where a module uses an item that another module of the crate defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The module that uses the item.
    pub from: ModuleId,
    /// The module that defines it, whichever re-exports the path goes through.
    pub to: ModuleId,
    /// The line in the file of `from`.
    pub line: usize,
    /// The path as it is written there.
    pub path: String,
}

/// Every import of the crate, in the order of the files.
///
/// A path counts for the module that *defines* the item, through any number of re-exports. A
/// re-export (`pub use`) does not count as an import. Neither does a module's name alone, only the
/// items used through it. Test code does not count.
pub fn imports(tree: &Tree) -> Vec<Import> {
    let names = Names::new(tree);
    let mut found = Vec::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut visitor = Paths {
            names: &names,
            module: id,
            found: &mut found,
        };
        for item in &module.items {
            visitor.visit_item(item);
        }
    }
    found
}

struct Paths<'a> {
    names: &'a Names<'a>,
    module: ModuleId,
    found: &'a mut Vec<Import>,
}

impl Paths<'_> {
    fn add(&mut self, path: &[String], line: usize) {
        if let Some(Target::Item(to)) = self.names.resolve(self.module, path)
            && to != self.module
        {
            self.found.push(Import {
                from: self.module,
                to,
                line,
                path: path.join("::"),
            });
        }
    }

    /// The arguments of a macro have no syntax tree: each chain `a::b::c` counts as a path.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        let mut after_dot = false;
        for token in tokens {
            let continues = colons == 2 && !path.is_empty();
            match token {
                TokenTree::Ident(ident) => {
                    if !continues {
                        self.chain(&mut path, line);
                        line = ident.span().start().line;
                    }
                    if continues || !after_dot {
                        path.push(ident.to_string());
                    }
                    colons = 0;
                    after_dot = false;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.chain(&mut path, line);
                    colons = 0;
                    after_dot = matches!(&other, TokenTree::Punct(p) if p.as_char() == '.');
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.chain(&mut path, line);
    }

    fn chain(&mut self, path: &mut Vec<String>, line: usize) {
        if !path.is_empty() {
            self.add(path, line);
            path.clear();
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for used in uses(item) {
            if !used.is_export && used.name.is_some() {
                self.add(&used.path, used.line);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            let line = path.segments[0].ident.span().start().line;
            self.add(&names, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast syn::Macro) {
        let path = &invoked.path;
        if let Some(name) = path.get_ident()
            && let Some(to) = self.names.macro_module(&name.to_string())
            && to != self.module
        {
            self.found.push(Import {
                from: self.module,
                to,
                line: name.span().start().line,
                path: format!("{name}!"),
            });
        } else {
            self.visit_path(path);
        }
        self.tokens(invoked.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }
}
