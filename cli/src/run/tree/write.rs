//! Writing a tree.

use super::{Node, Tree};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

impl Tree {
    /// Writes everything below `root`, which has none of it yet.
    ///
    /// # Errors
    /// If something can't be made: the error names it.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.entries {
            let path = root.join(path);
            write(&path, node).map_err(|error| {
                io::Error::new(error.kind(), format!("make {}: {error}", path.display()))
            })?;
        }
        Ok(())
    }
}

fn write(path: &Path, node: &Node) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match node {
        Node::Folder => fs::create_dir_all(path),
        Node::File(text) => fs::write(path, text),
        Node::Link(target) => symlink(target, path),
    }
}
