//! Programs of another Debian release, unpacked into a folder and run with that release's C
//! library. Nothing is installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::packages::Suite;
use super::{LabError, cache, kernel};

/// A Debian release, with the requested packages.
#[derive(Clone, Debug)]
pub struct Release {
    root: PathBuf,
}

impl Release {
    /// The packages of a suite, from this machine's mirror or, if they were downloaded before, from
    /// the lab's cache. `None`, with the reason on stderr, if no mirror is reachable.
    ///
    /// # Panics
    /// If no mirror is reachable and the environment variable `ROCE_LAB` is `require`, or if the
    /// packages can't be unpacked.
    pub fn get_or_skip(suite: &str, packages: &[&str]) -> Option<Self> {
        Self::get_as_or_skip(suite, suite, packages)
    }

    /// The same, in a folder of its own with this name, for tests that need other packages.
    ///
    /// # Panics
    /// As [`get_or_skip`](Self::get_or_skip) does.
    pub fn get_as_or_skip(name: &str, suite: &str, packages: &[&str]) -> Option<Self> {
        match Self::obtain(name, suite, packages) {
            Ok(root) => Some(Self { root }),
            Err(error) => {
                testkit::skip(
                    &format!("packages of Debian's suite {suite}"),
                    &error.to_string(),
                );
                None
            }
        }
    }

    fn obtain(name: &str, suite: &str, packages: &[&str]) -> Result<PathBuf, LabError> {
        let folder = cache::directory()?.join("releases").join(name);
        fs::create_dir_all(&folder).map_err(|e| LabError::io("create", &folder, &e))?;
        let _lock = kernel::lock(&folder)?;
        let root = folder.join("root");
        let list = folder.join("packages");
        let wanted = packages.join("\n");
        if fs::read_to_string(&list).is_ok_and(|had| had == wanted) {
            return Ok(root);
        }
        kernel::remove(&root)?;
        fs::create_dir(&root).map_err(|e| LabError::io("create", &root, &e))?;
        let apt = Suite::named(suite, &folder.join("apt"))?;
        eprintln!("lab: downloading {} of {suite}, once", packages.join(", "));
        let packages: Vec<String> = packages.iter().map(|&name| name.to_owned()).collect();
        apt.unpack(&packages, &root)?;
        kernel::remove(&folder.join("apt"))?;
        fs::write(&list, wanted).map_err(|e| LabError::io("write", &list, &e))?;
        Ok(root)
    }

    /// The path of a file of the release.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }

    /// The command that runs a program with the release's loader, with libraries from `first`, or
    /// else from the release.
    ///
    /// # Panics
    /// If the release has no loader: the packages must include libc6.
    pub fn command_line(&self, first: &Path, program: &Path) -> Vec<OsString> {
        let libraries = libraries(&self.root).expect("libc6 is among the packages");
        let loader = fs::read_dir(&libraries)
            .expect("a folder")
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().starts_with("ld-linux")
            })
            .expect("libc6 brings the loader");
        let mut path = first.as_os_str().to_owned();
        path.push(":");
        path.push(&libraries);
        vec![loader.into(), "--library-path".into(), path, program.into()]
    }
}

/// The folder of the libraries of this architecture.
fn libraries(root: &Path) -> Option<PathBuf> {
    fs::read_dir(root.join("usr/lib"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.join("libc.so.6").is_file())
}
