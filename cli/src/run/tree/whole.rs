//! All that a program can be shown, in one folder: where no mount is allowed.

use super::{MadeUp, Tree};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

impl MadeUp {
    /// `sys`, with all of `/sys` and what is made up, and `dev/infiniband`. Device files are
    /// links, which take no privilege.
    ///
    /// # Errors
    /// If `/sys` can't be listed.
    pub(crate) fn whole(&self) -> io::Result<Tree> {
        let mut whole = Tree::default();
        let class = Path::new("sys/class");
        for (path, node) in &self.class.entries {
            whole.entries.push((class.join(path), node.clone()));
        }
        // The rest of /sys, so that it can be taken for a whole one.
        whole.link_others(Path::new("/sys"), &["class"])?;
        whole.link_others(Path::new("/sys/class"), &Self::CLASSES)?;
        for name in &self.dev {
            whole.link(Path::new("dev/infiniband").join(name), Self::DEVICE);
        }
        Ok(whole)
    }
}

impl Tree {
    /// Links to all that the folder `from` has, but for some; none if it is not there.
    fn link_others(&mut self, from: &Path, but: &[&str]) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        // The order of a folder says nothing, and equal trees have equal hashes.
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
