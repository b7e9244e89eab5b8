//! The crates that are published.

use crate::DataError;
use crate::data::read_toml;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Manifest {
    package: Package,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

/// The folders of the crates that `.ci/check-packages` packs.
pub(crate) fn packages(root: &Path) -> Result<Vec<PathBuf>, DataError> {
    let list = root.join(".ci/check-packages");
    let text = std::fs::read_to_string(&list).map_err(|e| DataError::new(&list, e))?;
    let names = text
        .split_once("crates=(")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(names, _)| names.split_whitespace())
        .ok_or_else(|| DataError::new(&list, "has no line `crates=(NAME…)`"))?;
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root).map_err(|e| DataError::new(root, e))? {
        let folder = entry.map_err(|e| DataError::new(root, e))?.path();
        // The manifest of the workspace lies beside folders, not in one.
        if folder.join("Cargo.toml").exists() && folder.join("src/lib.rs").exists() {
            let manifest: Manifest = read_toml(&folder.join("Cargo.toml"))?;
            folders.push((manifest.package.name, folder));
        }
    }
    names
        .map(|name| {
            let found = folders.iter().find(|(package, _)| package == name);
            let missing = || DataError::new(&list, format!("no folder holds the crate {name}"));
            found.map(|(_, folder)| folder.clone()).ok_or_else(missing)
        })
        .collect()
}
