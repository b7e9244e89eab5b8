//! The complete set of files in one folder, for use where mounts are not allowed.

use super::{MadeUp, Tree};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl MadeUp {
    /// `sys`, with all of `/sys` and the generated files, and `dev/infiniband`. Device files are
    /// links, which need no privilege.
    ///
    /// # Errors
    /// If `/sys` can't be listed.
    pub(crate) fn whole(&self) -> io::Result<Tree> {
        let mut whole = Tree::default();
        let class = Path::new("sys/class");
        for (path, node) in &self.class.entries {
            whole.entries.push((class.join(path), node.clone()));
        }
        // The rest of /sys, so that the folder can replace it.
        whole.link_others(Path::new("/sys"), &["class"])?;
        whole.link_others(Path::new("/sys/class"), &Self::CLASSES)?;
        for name in &self.dev {
            whole.link(Path::new("dev/infiniband").join(name), Self::DEVICE);
        }
        Ok(whole)
    }
}

impl Tree {
    /// Links to the entries of `from`, except for those in `but`. Does nothing if `from` does not
    /// exist.
    fn link_others(&mut self, from: &Path, but: &[&str]) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        // Sort the entries, so that equal trees have equal hashes.
        paths.sort();
        for path in paths {
            let hidden = but.iter().any(|but| path.file_name() == Some(but.as_ref()));
            if !hidden {
                self.link(path.strip_prefix("/").unwrap_or(&path), &path);
            }
        }
        Ok(())
    }
}
