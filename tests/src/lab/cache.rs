//! The folder in which kernels, images and logs are kept between runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::LabError;

/// The lab's directory: `ROCE_LAB_CACHE`, else `lab` in cargo's target directory.
pub(super) fn directory() -> Result<PathBuf, LabError> {
    let path = env::var_os("ROCE_LAB_CACHE")
        .map(PathBuf::from)
        .or_else(|| target_of(&env::current_exe().ok()?))
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/lab"));
    fs::create_dir_all(&path).map_err(|e| LabError::io("create", &path, &e))?;
    path.canonicalize()
        .map_err(|e| LabError::io("find", &path, &e))
}

/// `lab` in the target directory of this program: the one that cargo has marked as a cache.
fn target_of(program: &Path) -> Option<PathBuf> {
    program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map(|target| target.join("lab"))
}
