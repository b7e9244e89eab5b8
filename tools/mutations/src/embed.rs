//! Embeds many mutations in one file: each mutated function gets a body for each mutation, and
//! selects one at run time.

use crate::Edit;
use proc_macro2::Span;
use std::collections::BTreeMap;
use std::ops::Range;
use syn::visit::Visit;

/// A file with many mutations.
#[derive(Debug)]
pub(crate) struct Embedded {
    /// The file.
    pub(crate) source: String,
    /// The lines, counted from 1, of each mutation.
    pub(crate) lines: Vec<(Range<usize>, usize)>,
    /// The numbers of the mutations outside functions that can select a body.
    pub(crate) left_over: Vec<usize>,
}

/// The function that returns which body to run; 0 is the original.
pub(crate) const SWITCH: &str = "
#[doc(hidden)]
#[allow(missing_docs)]
pub mod mutant_switch {
    extern crate std;
    /// The number in the environment variable ROCE_MUTANT.
    pub fn chosen() -> usize {
        // By another name, since a test forbids libraries to read variables, and this is in them.
        use std::env as environment;
        use std::sync::atomic::{AtomicUsize, Ordering};
        static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);
        let mut chosen = CHOSEN.load(Ordering::Relaxed);
        if chosen == usize::MAX {
            let set = environment::var(\"ROCE_MUTANT\").ok();
            chosen = set.and_then(|n| n.parse().ok()).unwrap_or(0);
            CHOSEN.store(chosen, Ordering::Relaxed);
        }
        chosen
    }
}
";

/// Puts all `edits`, each with its number, into `source`.
///
/// # Errors
/// If `source` is not Rust.
pub(crate) fn embed(source: &str, edits: &[(usize, Edit)]) -> syn::Result<Embedded> {
    let mut bodies = Bodies::default();
    bodies.visit_file(&syn::parse_file(source)?);
    let mut left_over = Vec::new();
    let mut chosen: BTreeMap<usize, (Range<usize>, Vec<_>)> = BTreeMap::new();
    for (number, edit) in edits {
        let inside = |body: &&Range<usize>| body.start <= edit.at.start && edit.at.end <= body.end;
        match bodies.can_choose.iter().find(inside) {
            Some(body) => {
                let entry = chosen.entry(body.start);
                let (_, edits) = entry.or_insert_with(|| (body.clone(), Vec::new()));
                edits.push((*number, edit));
            }
            None => left_over.push(*number),
        }
    }
    let mut out = Writer::default();
    let mut done = 0;
    for (body, edits) in chosen.into_values() {
        out.push(&source[done..body.start]);
        out.push(" match crate::mutant_switch::chosen() {\n");
        for (number, edit) in edits {
            let first = out.line();
            out.push(&format!("{number} => {{"));
            out.push(&source[body.start..edit.at.start]);
            out.push(&edit.new);
            out.push(" ");
            out.push(&source[edit.at.end..body.end]);
            out.push("}\n");
            out.lines.push((first..out.line(), number));
        }
        out.push("_ => {");
        out.push(&source[body.clone()]);
        out.push("} }");
        done = body.end;
    }
    out.push(&source[done..]);
    Ok(Embedded {
        source: out.text,
        lines: out.lines,
        left_over,
    })
}

/// Text, with the positions of its parts.
#[derive(Default)]
struct Writer {
    text: String,
    newlines: usize,
    lines: Vec<(Range<usize>, usize)>,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.newlines += text.matches('\n').count();
        self.text.push_str(text);
    }

    /// The line, counted from 1, of the next text to be added.
    fn line(&self) -> usize {
        self.newlines + 1
    }
}

/// The bodies of the functions that can select a body at run time: not `const`, and without an
/// opaque type, which would have to be one type for all bodies. Nested functions belong to the
/// outer one.
#[derive(Default)]
struct Bodies {
    can_choose: Vec<Range<usize>>,
}

impl Bodies {
    fn see(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let mut opaque = Opaque(false);
        opaque.visit_return_type(&signature.output);
        if signature.constness.is_some() || opaque.0 {
            return;
        }
        let braces = block.brace_token.span;
        let end = |span: Span| span.byte_range();
        let inside = end(braces.open()).end..end(braces.close()).start;
        self.can_choose.push(inside);
    }
}

impl<'a> Visit<'a> for Bodies {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.see(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.see(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.see(&item.sig, block);
        }
    }
}

/// Whether there is an `impl Trait`.
struct Opaque(bool);

impl<'a> Visit<'a> for Opaque {
    fn visit_type_impl_trait(&mut self, _: &'a syn::TypeImplTrait) {
        self.0 = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! é\nconst A: u8 = 1;\nimpl T {\n    fn f(&self) -> u8 {\n        \
                          self.a + 2\n    }\n}\nconst fn g() -> u8 {\n    3\n}\n";

    fn edit(old: &str, new: &str) -> Edit {
        let at = SOURCE.find(old).expect("it is there");
        Edit {
            name: String::new(),
            file: String::new(),
            line: 0,
            text: String::new(),
            at: at..at + old.len(),
            new: new.to_owned(),
            tests: None,
        }
    }

    #[test]
    fn a_function_gets_a_body_for_each_change() {
        let edits = [(7, edit("+", "-")), (8, edit("2", "9"))];
        let embedded = embed(SOURCE, &edits).expect("it is Rust");
        let flat: Vec<_> = embedded.source.split_whitespace().collect();
        assert_eq!(
            flat.join(" "),
            "//! é const A: u8 = 1; impl T { fn f(&self) -> u8 { match \
             crate::mutant_switch::chosen() { 7 => { self.a - 2 } 8 => { self.a + 9 } _ => { \
             self.a + 2 } }} } const fn g() -> u8 { 3 }"
        );
        assert!(embedded.left_over.is_empty());
        for (lines, number) in embedded.lines {
            let text: Vec<_> = embedded.source.lines().collect();
            let arm = text[lines.start - 1..lines.end - 1].concat();
            assert!(arm.starts_with(&format!("{number} => {{")), "{arm}");
            assert!(arm.ends_with('}'), "{arm}");
        }
    }

    #[test]
    fn mutations_outside_selectable_functions_are_left_over() {
        let edits = [(1, edit("1", "0")), (2, edit("3", "0"))];
        let embedded = embed(SOURCE, &edits).expect("it is Rust");
        assert_eq!(embedded.source, SOURCE);
        assert_eq!(embedded.left_over, [1, 2]);
    }
}
