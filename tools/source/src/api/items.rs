//! The lines of one item and its parts.

use super::exports::is_public;
use super::text::{attributes, text};
use super::{Lines, Rank};
use crate::tree::is_for_tests;
use syn::punctuated::Punctuated;
use syn::{Attribute, Field, Fields, Generics, Item, Path, Signature, Token, TraitItem};

/// Adds the lines of `item`, which users reach at `home`.
pub(super) fn add(item: &Item, home: &str, lines: &mut Lines) {
    let (attrs, line) = match item {
        Item::Const(i) => (&i.attrs, format!("pub const {home}: {}", text(&i.ty))),
        Item::Static(i) => (&i.attrs, format!("pub static {home}: {}", text(&i.ty))),
        Item::Type(i) => {
            let (params, bounds) = generics(&i.generics);
            let line = format!("pub type {home}{params} = {}{bounds}", text(&i.ty));
            (&i.attrs, line)
        }
        Item::Fn(i) => (&i.attrs, format!("pub {}", signature(&i.sig, home))),
        Item::Struct(i) => {
            fields(i.fields.iter(), home, lines);
            let hidden = hidden(i.fields.iter());
            let (params, bounds) = generics(&i.generics);
            (
                &i.attrs,
                format!("pub struct {home}{params}{bounds}{hidden}"),
            )
        }
        Item::Union(i) => {
            fields(i.fields.named.iter(), home, lines);
            let hidden = hidden(i.fields.named.iter());
            let (params, bounds) = generics(&i.generics);
            (
                &i.attrs,
                format!("pub union {home}{params}{bounds}{hidden}"),
            )
        }
        Item::Enum(i) => {
            for variant in &i.variants {
                let path = format!("{home}::{}", variant.ident);
                let mut line = attributes(&variant.attrs) + &path + &payload(&variant.fields);
                if let Some((_, value)) = &variant.discriminant {
                    line += &format!(" = {}", text(value));
                }
                lines.add(path, Rank::Definition, line);
            }
            let (params, bounds) = generics(&i.generics);
            (&i.attrs, format!("pub enum {home}{params}{bounds}"))
        }
        Item::Trait(i) => {
            for item in &i.items {
                trait_item(item, home, lines);
            }
            let (params, bounds) = generics(&i.generics);
            let parents = match &i.supertraits {
                parents if parents.is_empty() => String::new(),
                parents => format!(": {}", text(parents)),
            };
            let safety = i.unsafety.map_or("", |_| "unsafe ");
            let line = format!("pub {safety}trait {home}{params}{parents}{bounds}");
            (&i.attrs, line)
        }
        _ => return,
    };
    derives(attrs, home, lines);
    lines.add(home, Rank::Definition, attributes(attrs) + &line);
}

/// A function's signature, with its path instead of its name.
pub(super) fn signature(signature: &Signature, path: &str) -> String {
    let mut signature = signature.clone();
    // `mut` of a parameter means nothing to callers, nor does a comma before the parenthesis.
    for input in &mut signature.inputs {
        match input {
            syn::FnArg::Receiver(this) if this.reference.is_none() => this.mutability = None,
            syn::FnArg::Typed(typed) => {
                if let syn::Pat::Ident(name) = &mut *typed.pat {
                    name.mutability = None;
                }
            }
            syn::FnArg::Receiver(_) => {}
        }
    }
    signature.inputs.pop_punct();
    trim(&mut signature.generics);
    let name = format!("fn {}", signature.ident);
    text(&signature).replacen(&name, &format!("fn {path}"), 1)
}

/// The parameters in angle brackets, and the `where` clause with a space before it.
pub(super) fn generics(generics: &Generics) -> (String, String) {
    let mut generics = generics.clone();
    trim(&mut generics);
    let bounds = match &generics.where_clause {
        Some(clause) => format!(" {}", text(clause)),
        None => String::new(),
    };
    (text(&generics), bounds)
}

/// Removes the commas at the end of lists.
fn trim(generics: &mut Generics) {
    generics.params.pop_punct();
    if let Some(clause) = &mut generics.where_clause {
        clause.predicates.pop_punct();
    }
}

/// A line for each public field.
fn fields<'a>(all: impl Iterator<Item = &'a Field>, home: &str, lines: &mut Lines) {
    for (index, field) in all.enumerate() {
        if is_public(&field.vis) && !is_for_tests(&field.attrs) {
            let name = field.ident.as_ref();
            let name = name.map_or_else(|| index.to_string(), ToString::to_string);
            let path = format!("{home}::{name}");
            let line = format!(
                "{}pub {path}: {}",
                attributes(&field.attrs),
                text(&field.ty)
            );
            lines.add(path, Rank::Definition, line);
        }
    }
}

/// Says that there are private fields: others cannot construct the value from its fields.
fn hidden<'a>(mut all: impl Iterator<Item = &'a Field>) -> &'static str {
    if all.any(|field| !is_public(&field.vis)) {
        " { .. }"
    } else {
        ""
    }
}

/// The fields of a variant.
fn payload(fields: &Fields) -> String {
    match fields.clone() {
        Fields::Unit => String::new(),
        Fields::Unnamed(mut fields) => {
            fields.unnamed.pop_punct();
            text(fields)
        }
        Fields::Named(mut fields) => {
            fields.named.pop_punct();
            format!(" {}", text(fields))
        }
    }
}

fn trait_item(item: &TraitItem, home: &str, lines: &mut Lines) {
    let (attrs, path, line, has_default) = match item {
        TraitItem::Const(i) => {
            let path = format!("{home}::{}", i.ident);
            let line = format!("const {path}: {}", text(&i.ty));
            (&i.attrs, path, line, i.default.is_some())
        }
        TraitItem::Fn(i) => {
            let path = format!("{home}::{}", i.sig.ident);
            let line = signature(&i.sig, &path);
            (&i.attrs, path, line, i.default.is_some())
        }
        TraitItem::Type(i) => {
            let path = format!("{home}::{}", i.ident);
            let (params, bounds) = generics(&i.generics);
            let limits = match &i.bounds {
                limits if limits.is_empty() => String::new(),
                limits => format!(": {}", text(limits)),
            };
            let line = format!("type {path}{params}{limits}{bounds}");
            (&i.attrs, path, line, i.default.is_some())
        }
        other => {
            lines.add(home, Rank::Generated, format!("in {home}: {}", text(other)));
            return;
        }
    };
    let default = if has_default { " { .. }" } else { "" };
    lines.add(path, Rank::Definition, attributes(attrs) + &line + default);
}

/// A line for each derived trait.
fn derives(attrs: &[Attribute], home: &str, lines: &mut Lines) {
    for attribute in attrs.iter().filter(|a| a.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated);
        for path in paths.into_iter().flatten() {
            lines.add(home, Rank::Impl, format!("impl {} for {home}", text(path)));
        }
    }
}
