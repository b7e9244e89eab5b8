//! Writing a tree.

use super::{Node, Tree};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

impl Tree {
    /// Writes everything below `root`, which has none of it.
    ///
    /// # Errors
    /// If an entry can't be made; the error names it.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.entries {
            write_one(&root.join(path), node)?;
        }
        Ok(())
    }

    /// Restores what is missing or different below `root`, where everything was written before.
    ///
    /// # Errors
    /// If an entry can't be made; the error names it.
    pub(crate) fn repair(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.entries {
            let path = root.join(path);
            if !matches_node(&path, node) {
                let _ = fs::remove_file(&path);
                write_one(&path, node)?;
            }
        }
        Ok(())
    }
}

/// Whether a path has the expected entry.
fn matches_node(path: &Path, node: &Node) -> bool {
    match node {
        Node::Folder => path.is_dir(),
        Node::File(text) => fs::read(path).is_ok_and(|found| found == text.as_bytes()),
        Node::Link(target) => fs::read_link(path).is_ok_and(|found| found == *target),
    }
}

fn write_one(path: &Path, node: &Node) -> io::Result<()> {
    write(path, node)
        .map_err(|error| io::Error::new(error.kind(), format!("make {}: {error}", path.display())))
}

fn write(path: &Path, node: &Node) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match node {
        Node::Folder => fs::create_dir_all(path),
        Node::File(text) => {
            fs::write(path, text)?;
            // Read-only, as in sysfs.
            fs::set_permissions(path, fs::Permissions::from_mode(0o444))
        }
        Node::Link(target) => symlink(target, path),
    }
}
