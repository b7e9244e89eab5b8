//! Tokens as text, independent of line breaks in the source.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// The attributes that matter to users. All others are left out, documentation too.
const SHOWN: &[&str] = &[
    "cfg",
    "cfg_attr",
    "deprecated",
    "derive",
    "non_exhaustive",
    "repr",
];

/// Punctuation of several characters.
const JOINED: &[&str] = &["::", "->", "=>", "..", "..=", "=="];

/// Keywords that are followed by a type.
const BEFORE_TYPES: &[&str] = &["as", "const", "dyn", "impl", "in", "mut", "where"];

/// The text of a part of a program, on one line.
pub(super) fn text(part: impl ToTokens) -> String {
    let mut words = Vec::new();
    flatten(part.to_token_stream(), &mut words);
    let mut line = String::new();
    let mut last = "";
    for word in &words {
        if !last.is_empty() && is_spaced(last, word) {
            line.push(' ');
        }
        line.push_str(word);
        last = word;
    }
    line
}

/// The attributes of an item, each followed by a space, without `derive`.
pub(super) fn attributes(all: &[syn::Attribute]) -> String {
    let shown = all.iter().filter(|a| !a.path().is_ident("derive"));
    let shown = shown.map(text).filter(|text| !text.is_empty());
    shown.map(|text| text + " ").collect()
}

/// Appends the words of `tokens`. A lifetime is one word.
fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut joins = false;
    while let Some(token) = tokens.next() {
        let joined = std::mem::take(&mut joins);
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => match tokens.peek() {
                Some(TokenTree::Group(group)) if !is_shown(group) => _ = tokens.next(),
                _ => words.push("#".into()),
            },
            TokenTree::Punct(punct) => {
                joins = punct.spacing() == Spacing::Joint;
                let last = words.last_mut().filter(|_| joined);
                let both = last.as_ref().map(|last| format!("{last}{punct}"));
                match (last, both) {
                    (Some(last), Some(both)) if JOINED.contains(&both.as_str()) => *last = both,
                    _ => words.push(punct.to_string()),
                }
            }
            TokenTree::Ident(name) => match words.last_mut() {
                Some(last) if joined && last == "'" => last.push_str(&name.to_string()),
                _ => words.push(name.to_string()),
            },
            TokenTree::Literal(literal) => words.push(literal.to_string()),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.into());
                flatten(group.stream(), words);
                words.push(close.into());
            }
        }
    }
}

/// Whether an attribute, given without its `#`, matters to users.
fn is_shown(attribute: &proc_macro2::Group) -> bool {
    match attribute.stream().into_iter().next() {
        Some(TokenTree::Ident(name)) => SHOWN.iter().any(|shown| name == shown),
        _ => true,
    }
}

/// Whether a space separates two words.
fn is_spaced(last: &str, next: &str) -> bool {
    match (last, next) {
        ("->", _) => true,
        (_, "," | ";" | ")" | "]" | ">" | "::" | ":" | "." | "?" | "!") => false,
        ("(" | "[" | "<" | "::" | "&" | "!" | "#" | "*" | ".", _) => false,
        ("impl" | "for", "<") => false,
        (_, "(" | "[" | "<") => {
            let is_name = last.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '>');
            last.starts_with('\'') || !is_name || BEFORE_TYPES.contains(&last)
        }
        _ => true,
    }
}
