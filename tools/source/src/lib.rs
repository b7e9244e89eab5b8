//! The project's own sources as data, for tests and tools.
//!
//! - [`Tree`]: the modules of a crate, as the compiler finds them.
//! - [`imports`]: the uses of other modules' items, with their positions.
//! - [`cycles`]: modules that import each other in a cycle.
//! - [`public_enums`]: the enums that are declared `pub`.
//! - [`packages`]: the crates of the workspace, and those that are published.
//! - [`toml_files`]: the data files of a folder.
#![warn(missing_docs)]

mod cycles;
mod data;
mod enums;
mod imports;
mod names;
mod packages;
#[cfg(test)]
mod tests;
mod tree;

pub use cycles::{Cycle, cycles};
pub use data::{DataError, read_toml, toml_files};
pub use enums::{PublicEnum, public_enums};
pub use imports::{Import, imports};
pub use packages::{Package, crate_folders, crate_roots};
pub use tree::{Module, ModuleId, Tree};

use std::path::PathBuf;

/// The root folder of the project.
pub fn project_root() -> PathBuf {
    let crate_root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .ancestors()
        .nth(2)
        .map_or(crate_root.clone(), PathBuf::from)
}

/// The crates that are published, by the list of packages in `.ci/check-packages`.
///
/// # Errors
/// If that file or a manifest can't be read, or names no crate of the project.
pub fn packages() -> Result<Vec<Package>, DataError> {
    packages::packages(&project_root())
}
