//! The libibverbs and librdmacm that programs find by name.

use super::Context;
use crate::doctor::finding::Finding;
use crate::doctor::loader::{Loader, Start};
use crate::doctor::machine::Machine;
use std::path::PathBuf;

const NAME: &str = "libibverbs.so.1";

/// Whether programs get this stack's library in this environment without `roce run`.
pub(super) fn is_in_place(machine: &Machine) -> bool {
    let opened = Loader::new(machine, Start::Directly).opened(NAME);
    preloaded(machine) || opened.is_some_and(|path| machine.is_ours(&path))
}

/// Whether this stack's library is preloaded in this environment.
pub(super) fn preloaded(machine: &Machine) -> bool {
    let preload = machine.variable("LD_PRELOAD").unwrap_or_default();
    let mut names = preload.split([':', ' ', '\t', '\n']);
    names.any(|name| name.starts_with('/') && machine.is_ours(&machine.at(name)))
}

/// Where this stack's library is, and what programs started without it get.
pub(in crate::doctor) fn library(context: &Context<'_>) -> Vec<Finding> {
    const CHECK: &str = "library";
    let machine = context.machine;
    let ours = match &machine.library {
        Ok(path) => machine.display_path(path),
        Err(why) => {
            let finding = Finding::failure(CHECK, why.clone());
            return vec![finding.remedy("cargo build --release -p roce-verbs-shim")];
        }
    };
    if !context.by_run {
        let what = format!("programs get this stack's library: {ours}");
        return vec![Finding::ok(CHECK, what)];
    }
    let others: Vec<PathBuf> = [NAME, "librdmacm.so.1"]
        .iter()
        .filter_map(|name| Loader::new(machine, Start::Directly).opened(name))
        .collect();
    let shown: Vec<String> = others
        .iter()
        .map(|path| machine.display_path(path))
        .collect();
    let without = match shown.is_empty() {
        true => "find no libibverbs".to_owned(),
        false => format!("get {}", shown.join(" and ")),
    };
    vec![Finding::ok(
        CHECK,
        format!("`roce run` gives programs {ours}; without it they {without}"),
    )]
}
