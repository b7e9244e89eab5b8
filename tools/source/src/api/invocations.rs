//! The lines of macros that generate items.

use super::exports::Exports;
use super::text::text;
use super::{Lines, Rank};
use crate::ModuleId;
use crate::names::{Target, declared_names};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::Item;

/// Adds the invocation of a macro, in `module`, if it generates public items or implements something
/// for them. Its tokens stand for what it generates.
pub(super) fn add(
    invoked: &syn::Macro,
    module: ModuleId,
    exports: &Exports<'_>,
    lines: &mut Lines,
) {
    let Some(name) = invoked.path.segments.last() else {
        return;
    };
    let name = format!("{}!", name.ident);
    let named: Vec<Option<&str>> = subjects(invoked, module, exports);
    let home = match named.iter().flatten().next() {
        Some(home) => format!("{home}::{name}"),
        None if named.is_empty() && generates_public(invoked, exports) => name.clone(),
        None => return,
    };
    for entry in entries(invoked.tokens.clone()) {
        lines.add(home.as_str(), Rank::Generated, format!("{home} {entry}"));
    }
}

/// The items that an invocation declares, or else those that it names: where each is listed, or
/// `None` if users cannot reach it.
fn subjects<'a>(
    invoked: &syn::Macro,
    module: ModuleId,
    exports: &'a Exports<'_>,
) -> Vec<Option<&'a str>> {
    let declared = declared_names(invoked);
    if !declared.is_empty() {
        let homes = declared.iter().map(|name| exports.home(module, name));
        return homes.collect();
    }
    let mut found = Vec::new();
    for token in invoked.tokens.clone() {
        if let TokenTree::Ident(name) = token
            && let Some(Target::Item(of, name)) = exports.names.resolve(module, &[name.to_string()])
        {
            found.push(exports.home(of, &name));
        }
    }
    found
}

/// Whether the macro is one of this crate, and its definition contains `pub`.
fn generates_public(invoked: &syn::Macro, exports: &Exports<'_>) -> bool {
    let Some(name) = invoked.path.get_ident() else {
        return false;
    };
    let Some(module) = exports.names.macro_module(&name.to_string()) else {
        return false;
    };
    let mut items = exports.tree.modules[module].items.iter();
    items.any(|item| match item {
        Item::Macro(item) => {
            item.ident.as_ref() == Some(name) && contains_public(item.mac.tokens.clone())
        }
        _ => false,
    })
}

/// Whether `pub` is among the tokens, other than in `pub(…)`.
fn contains_public(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Ident(word) if word == "pub" => !matches!(
                tokens.peek(),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis
            ),
            TokenTree::Group(group) => contains_public(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// The arguments of an invocation, split at semicolons and, within braces, at commas.
fn entries(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    let mut entry: Vec<TokenTree> = Vec::new();
    let mut end = |entry: &mut Vec<TokenTree>| {
        let line = text(entry.drain(..).collect::<TokenStream>());
        if !line.is_empty() {
            found.push(line);
        }
    };
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => end(&mut entry),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                end(&mut entry);
                for inner in group.stream() {
                    match inner {
                        TokenTree::Punct(punct) if [';', ','].contains(&punct.as_char()) => {
                            end(&mut entry);
                        }
                        inner => entry.push(inner),
                    }
                }
                end(&mut entry);
            }
            token => entry.push(token),
        }
    }
    end(&mut entry);
    found
}
