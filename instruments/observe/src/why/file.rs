//! The files that variables name.

use roce_trust::environment::Malformed;
pub(super) use roce_trust::files::append as open;
use std::path::{Path, PathBuf};

/// The path that a variable names, if it is set. The program may change its folder later.
pub(super) fn absolute(variable: &'static str) -> Result<Option<PathBuf>, Malformed> {
    let Some(value) = roce_trust::environment::variable(variable) else {
        return Ok(None);
    };
    let path = std::path::absolute(&value);
    path.map(Some)
        .map_err(|error| Malformed::new(variable, &value, error))
}

/// Checks that the file that a variable names can be written, or that its folder exists.
pub(super) fn check_file(variable: &'static str, path: &Path) -> Result<(), Malformed> {
    let checked = match path.try_exists() {
        Ok(true) => open(path).map(drop),
        Ok(false) => std::fs::read_dir(path.parent().unwrap_or(Path::new("/"))).map(drop),
        Err(error) => Err(error),
    };
    checked.map_err(|error| Malformed::new(variable, path, error))
}
