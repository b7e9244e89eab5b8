//! Folders of TOML files.

use serde::de::DeserializeOwned;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a data file can't be used.
#[derive(Debug)]
pub struct DataError {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl DataError {
    /// An error about `path`.
    pub fn new(path: &Path, what: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for DataError {}

/// The TOML files of `folder`, in the order of their names.
///
/// # Errors
/// If the folder can't be read.
pub fn toml_files(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = std::fs::read_dir(folder).map_err(|e| DataError::new(folder, e))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| DataError::new(folder, e))?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads one TOML file.
///
/// # Errors
/// If the file can't be read, or is not a `T`.
pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, DataError> {
    let text = std::fs::read_to_string(path).map_err(|e| DataError::new(path, e))?;
    toml::from_str(&text).map_err(|e| DataError::new(path, e))
}
