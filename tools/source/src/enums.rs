//! The public enums of a crate.

use crate::Tree;
use syn::{Attribute, Item, Visibility};

/// A public enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicEnum {
    /// Its path below the crate, such as `work::PostError`.
    pub path: String,
    /// Whether it has the attribute `#[non_exhaustive]`: variants can be added without breaking
    /// its users.
    pub may_grow: bool,
}

/// Every enum that is declared `pub`. Those that a macro generates, and those of tests, do not
/// count.
pub fn public_enums(tree: &Tree) -> Vec<PublicEnum> {
    let mut found = Vec::new();
    for module in &tree.modules {
        for item in &module.items {
            let Item::Enum(item) = item else { continue };
            if !matches!(item.vis, Visibility::Public(_)) {
                continue;
            }
            let name = item.ident.to_string();
            found.push(PublicEnum {
                path: match module.path.as_str() {
                    "" => name,
                    path => format!("{path}::{name}"),
                },
                may_grow: item.attrs.iter().any(is_non_exhaustive),
            });
        }
    }
    found
}

fn is_non_exhaustive(attribute: &Attribute) -> bool {
    attribute.path().is_ident("non_exhaustive")
}
