//! The crates of the workspace, and those that are published.

use crate::DataError;
use crate::data::read_toml;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Manifest {
    package: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// A crate that is published.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name, such as `roce-wire`.
    pub name: String,
    /// Its folder, as an absolute path.
    pub folder: PathBuf,
}

#[derive(Deserialize)]
struct Workspace {
    workspace: Members,
}

#[derive(Deserialize)]
struct Members {
    members: Vec<String>,
}

/// The root file of each library and program of the workspace.
///
/// # Errors
/// If the workspace's manifest can't be read.
pub fn crate_roots(root: &Path) -> Result<Vec<PathBuf>, DataError> {
    let folders = crate_folders(root)?.into_iter();
    let files =
        folders.flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)));
    Ok(files.filter(|file| file.exists()).collect())
}

/// The folder of each crate of the workspace.
///
/// # Errors
/// If the workspace's manifest can't be read.
pub fn crate_folders(root: &Path) -> Result<Vec<PathBuf>, DataError> {
    let manifest: Workspace = read_toml(&root.join("Cargo.toml"))?;
    let members = manifest.workspace.members.iter();
    Ok(members.map(|member| root.join(member)).collect())
}

/// The crates that `.ci/check-packages` packs.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, DataError> {
    let list = root.join(".ci/check-packages");
    let text = std::fs::read_to_string(&list).map_err(|e| DataError::new(&list, e))?;
    let names = text
        .split_once("crates=(")
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(names, _)| names.split_whitespace())
        .ok_or_else(|| DataError::new(&list, "has no line `crates=(NAME…)`"))?;
    let mut folders = Vec::new();
    for folder in crate_folders(root)? {
        if folder.join("src/lib.rs").exists() {
            let manifest: Manifest = read_toml(&folder.join("Cargo.toml"))?;
            let name = manifest.package.name;
            folders.push(Package { name, folder });
        }
    }
    names
        .map(|name| {
            let found = folders.iter().find(|package| package.name == name);
            let missing = || DataError::new(&list, format!("no folder holds the crate {name}"));
            found.cloned().ok_or_else(missing)
        })
        .collect()
}
