//! The complete set of files in one folder, for use where mounts are not allowed.

use super::{DeviceFiles, Tree};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl DeviceFiles {
    /// `sys`, with all of `/sys` and the generated files, and `dev/infiniband`. Device files are
    /// links, which need no privilege.
    ///
    /// # Errors
    /// If `/sys` can't be listed.
    pub(crate) fn full_tree(&self) -> io::Result<Tree> {
        let mut full = Tree::default();
        let class = Path::new("sys/class");
        for (path, node) in &self.class.entries {
            full.entries.push((class.join(path), node.clone()));
        }
        // The rest of /sys, so that the folder can replace it.
        full.link_others(Path::new("/sys"), &["class"])?;
        full.link_others(Path::new("/sys/class"), &Self::CLASSES)?;
        for name in &self.dev {
            full.link(Path::new("dev/infiniband").join(name), Self::DEVICE);
        }
        Ok(full)
    }
}

impl Tree {
    /// Links to the entries of `from`, except for those in `except`. Does nothing if `from` does
    /// not exist.
    fn link_others(&mut self, from: &Path, except: &[&str]) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        // Sort the entries, so that equal trees have equal hashes.
        paths.sort();
        for path in paths {
            let hidden = except
                .iter()
                .any(|name| path.file_name() == Some(name.as_ref()));
            if !hidden {
                self.link(path.strip_prefix("/").unwrap_or(&path), &path);
            }
        }
        Ok(())
    }
}
