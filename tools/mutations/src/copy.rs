//! A copy of the checkout, in which mutations are made.

use crate::Edit;
use roce_trust::output::say;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of all files that git tracks or would add, with a target folder of its own that is kept
/// between runs.
#[derive(Debug)]
pub struct Copy {
    /// The copy.
    pub checkout: PathBuf,
    /// The target folder.
    pub target: PathBuf,
}

impl Copy {
    /// Makes the copy, or updates it, in a folder below `target`. Files named in `except` are left out,
    /// or left as they are.
    ///
    /// # Errors
    /// If git can't list the files, or they can't be copied.
    pub fn make(
        root: &Path,
        target: &Path,
        name: &str,
        except: &BTreeMap<String, String>,
    ) -> io::Result<Self> {
        let folder = target.join(format!("mutations-{name}"));
        let copy = Self {
            checkout: folder.join("checkout"),
            target: folder.join("target"),
        };
        let listed = Command::new("git")
            .current_dir(root)
            .args(["ls-files", "-co", "--exclude-standard", "-z"])
            .output()?;
        if !listed.status.success() {
            let error = String::from_utf8_lossy(&listed.stderr).into_owned();
            return Err(io::Error::other(error));
        }
        for name in String::from_utf8_lossy(&listed.stdout).split('\0') {
            let from = root.join(name);
            let is_wanted = !name.starts_with("fuzz/corpus") && !except.contains_key(name);
            if name.is_empty() || !is_wanted || !from.is_file() {
                continue;
            }
            write_if_other(&copy.checkout.join(name), &std::fs::read(&from)?)?;
        }
        Ok(copy)
    }

    /// Applies the edit. It is undone when the returned value is dropped.
    ///
    /// # Errors
    /// If the file can't be read or written.
    pub fn apply(&self, edit: &Edit) -> io::Result<Applied> {
        let path = self.checkout.join(&edit.file);
        let original = std::fs::read_to_string(&path)?;
        std::fs::write(&path, edit.apply(&original))?;
        Ok(Applied { path, original })
    }

    /// Writes `text` to a file.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write_if_other(&self.checkout.join(name), text.as_bytes())
    }
}

/// The previous contents, to be restored.
#[derive(Debug)]
pub struct Applied {
    path: PathBuf,
    original: String,
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.path, &self.original) {
            say(
                "roce-mutations",
                format_args!("{}: not restored: {error}", self.path.display()),
            );
        }
    }
}

/// Unchanged files keep their timestamps, so that they are not rebuilt.
fn write_if_other(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}
