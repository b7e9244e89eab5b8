//! Python environments: their packages bundle libraries, often under other names.

use super::loader::{is_verbs, place};
use super::machine::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How deep libraries are nested in packages: `package.libs/`, or `package/lib/ucx/`.
const DEPTH: usize = 4;

/// The most files and folders to look at in one environment.
const MAX_ENTRIES: usize = 200_000;

/// The package folders that a program, script or environment uses; none if it has nothing to do
/// with Python.
pub(super) fn packages(machine: &Machine, path: &Path) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    if path.is_dir() {
        prefixes.push(path.to_owned());
    } else {
        let Some(interpreter) = interpreter(machine, path) else {
            return Vec::new();
        };
        // A link in a virtual environment belongs to it; its target does not.
        prefixes.extend(prefix(&interpreter));
        let target = interpreter.canonicalize();
        let is_system = |target: &PathBuf| target.starts_with(&machine.root);
        prefixes.extend(target.ok().filter(is_system).and_then(|path| prefix(&path)));
        if let Some(environment) = machine.variable("VIRTUAL_ENV") {
            prefixes.push(place(machine, &environment));
        }
    }
    let mut found = BTreeSet::new();
    for prefix in prefixes {
        for lib in ["lib", "lib64", "local/lib"] {
            let versions = fs::read_dir(prefix.join(lib)).into_iter().flatten();
            for version in versions.flatten() {
                if version.file_name().to_string_lossy().starts_with("python3") {
                    let folders = ["site-packages", "dist-packages"];
                    found.extend(folders.map(|folder| version.path().join(folder)));
                }
            }
        }
    }
    let path_of_python = machine.variable("PYTHONPATH").unwrap_or_default();
    let more = path_of_python.split(':').filter(|part| !part.is_empty());
    found.extend(more.map(|folder| place(machine, folder)));
    // Several names may lead to one folder.
    let folders = found
        .into_iter()
        .filter_map(|folder| folder.canonicalize().ok());
    let folders: BTreeSet<PathBuf> = folders.filter(|folder| folder.is_dir()).collect();
    folders.into_iter().collect()
}

/// The Python that runs a file: the file itself, or the one in its first line.
fn interpreter(machine: &Machine, path: &Path) -> Option<PathBuf> {
    if is_python(path) {
        return Some(path.to_owned());
    }
    script_interpreter(machine, path).filter(|path| is_python(path))
}

/// The interpreter in the first line of a script.
pub(super) fn script_interpreter(machine: &Machine, path: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(256).read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let line = line.strip_prefix("#!")?.lines().next()?.trim().to_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let named = match first.ends_with("/env") {
        true => words.find(|word| !word.starts_with('-') && !word.contains('='))?,
        false => first,
    };
    if named.starts_with('/') {
        return Some(machine.at(named));
    }
    let search = machine.variable("PATH")?;
    let mut places = search
        .split(':')
        .map(|folder| place(machine, folder).join(named));
    places.find(|path| path.is_file())
}

fn is_python(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python");
    version.is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// `/usr` of `/usr/bin/python3`.
fn prefix(interpreter: &Path) -> Option<PathBuf> {
    Some(interpreter.parent()?.parent()?.to_owned())
}

/// The copies of libibverbs and librdmacm bundled in packages.
pub(super) fn copies(packages: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    for folder in packages {
        search(folder, DEPTH, &mut left, &mut found);
    }
    found.sort();
    found
}

fn search(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        // Links to folders are not followed, which avoids cycles.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth > 1 {
            search(&entry.path(), depth - 1, left, found);
        } else if kind.is_file() && is_verbs(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
}
