//! The project's own sources as data, for tests and tools.
//!
//! - [`Tree`]: the modules of a crate, as the compiler finds them.
//! - [`imports`]: the uses of other modules' items, with their positions.
//! - [`cycles`]: modules that import each other in a cycle.
//! - [`toml_files`]: the data files of a folder.
#![warn(missing_docs)]

mod cycles;
mod data;
mod imports;
mod names;
#[cfg(test)]
mod tests;
mod tree;

pub use cycles::{Cycle, cycles};
pub use data::{DataError, read_toml, toml_files};
pub use imports::{Import, imports};
pub use tree::{Module, ModuleId, SourceError, Tree};

use std::path::PathBuf;

/// The root folder of the project.
pub fn project_root() -> PathBuf {
    let crate_root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .parent()
        .map_or(crate_root.clone(), PathBuf::from)
}
