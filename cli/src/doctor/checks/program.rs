//! Which libibverbs and librdmacm a program would load: this stack's, or a bundled copy.

use super::Context;
use super::library::preloaded;
use crate::doctor::finding::Finding;
use crate::doctor::loader::{Loaded, Loader, Start, is_verbs, place};
use crate::doctor::python;
use crate::elf::Image;
use crate::quote::{printable, quoted};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Checks a program, given by name or path, or a folder with a Python environment.
pub(in crate::doctor) fn program(context: &Context<'_>, program: &str) -> Vec<Finding> {
    let shown = printable(program);
    let Some(path) = find(context, program) else {
        let what = "there is no such program, nor a folder with a Python environment";
        return vec![Finding::failure(&shown, what)];
    };
    let mut findings = Vec::new();
    if path.is_file() {
        findings.extend(linked(context, &shown, &path));
    }
    let packages = python::packages(context.machine, &path);
    let copies = python::copies(&packages);
    findings.extend(
        copies
            .iter()
            .map(|copy| bundled(context, &shown, copy, None)),
    );
    if copies.is_empty() && !packages.is_empty() {
        let folders: Vec<String> = packages
            .iter()
            .map(|p| context.machine.display_path(p))
            .collect();
        let what = format!(
            "no Python package brings a libibverbs ({})",
            folders.join(", ")
        );
        findings.push(Finding::ok(&shown, what));
    }
    if findings.is_empty() {
        let what = "neither a program nor a Python environment: nothing to look at";
        findings.push(Finding::failure(&shown, what));
    }
    findings
}

/// Resolves a path, or searches PATH.
fn find(context: &Context<'_>, program: &str) -> Option<PathBuf> {
    let machine = context.machine;
    if program.contains('/') || program == "." {
        return Some(place(machine, program)).filter(|path| path.exists());
    }
    let path = machine.variable("PATH")?;
    let mut places = path
        .split(':')
        .map(|folder| place(machine, folder).join(program));
    let executable = |path: &PathBuf| {
        let found = path.metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    places.find(executable).or_else(|| {
        let folder = place(machine, program);
        (!program.is_empty() && folder.is_dir()).then_some(folder)
    })
}

/// Checks the libraries that an executable file loads when it starts.
fn linked(context: &Context<'_>, shown: &str, path: &Path) -> Vec<Finding> {
    let machine = context.machine;
    let Some(image) = Image::read(path) else {
        return python::script_interpreter(machine, path)
            // Skip an interpreter that is itself a script, to avoid an endless loop.
            .filter(|interpreter| Image::read(interpreter).is_some())
            .map(|interpreter| linked(context, shown, &interpreter))
            .unwrap_or_default();
    };
    let what = machine.display_path(path);
    if !image.is_native {
        let what =
            format!("{what} is for another processor or word size than this stack's library");
        return vec![Finding::failure(shown, what)];
    }
    if image.interpreter.is_none() && image.needed.is_empty() {
        let what =
            format!("{what} is linked statically: no library can take another's place in it");
        return vec![Finding::failure(shown, what)];
    }
    let start = if context.by_run {
        Start::ByRun
    } else {
        Start::Directly
    };
    let tree = Loader::new(machine, start).tree(path);
    let verbs: Vec<&Loaded> = tree
        .iter()
        .filter(|loaded| is_verbs(&loaded.name))
        .collect();
    let mut findings = Vec::new();
    for loaded in &verbs {
        findings.push(match &loaded.path {
            None => Finding::failure(
                shown,
                format!("{} is not found, so {what} does not start", loaded.name),
            )
            .remedy(format!("roce run {}", quoted(shown))),
            Some(path) if machine.is_ours(path) => Finding::ok(
                shown,
                format!(
                    "{} is this stack's: {}",
                    loaded.name,
                    machine.display_path(path)
                ),
            ),
            Some(path) => bundled(context, shown, path, Some(&loaded.by)),
        });
    }
    if verbs.is_empty() {
        let what = "does not link to libibverbs; what it loads by dlopen is not checked";
        findings.push(Finding::ok(shown, what));
    }
    findings
}

/// The finding for a copy of the library that the loader finds before this stack's. A preloaded
/// library, as under `roce run`, comes before any copy.
fn bundled(context: &Context<'_>, shown: &str, copy: &Path, by: Option<&Path>) -> Finding {
    let machine = context.machine;
    let by = by.map_or(String::new(), |by| {
        format!(" (for {})", machine.display_path(by))
    });
    let is_plain = copy.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        ["libibverbs.so.1", "librdmacm.so.1"]
            .iter()
            .any(|plain| name.starts_with(plain))
    });
    let kind = match is_plain {
        true => "a copy",
        false => "a renamed copy",
    };
    let copy = format!(
        "{kind} of the library is bundled: {}{by}",
        machine.display_path(copy)
    );
    if preloaded(machine) {
        let what = format!("{copy}; this stack's is preloaded, and comes before it");
        return Finding::ok(shown, what);
    }
    let what = match context.by_run {
        true => format!("{copy}: without `roce run` it finds hardware only"),
        false => format!("{copy}: it bypasses this stack, and finds only hardware"),
    };
    Finding::unless_by_run(context.by_run, shown, what)
        .remedy(format!("roce run {}", quoted(shown)))
}
