//! The library that takes the place of libibverbs.so.1: where it is, and the names by which
//! programs ask for it.

use super::error::RunError;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What cargo calls it.
const BUILT: &str = "libroce_verbs_shim.so";

/// What programs call it. Those that load it by hand ask for either.
const NAMES: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];

/// The library that shows made-up files where no mount is allowed. It lies beside the other.
const PRELOAD: &str = "libroce_preload.so";

/// The names of a library that has the connection manager, too.
const CM_NAMES: [&str; 2] = ["librdmacm.so.1", "librdmacm.so"];

/// A symbol of the connection manager: who exports it can be librdmacm.so.1.
const CM_SYMBOL: &[u8] = b"rdma_create_event_channel\0";

/// A variable that this stack reads, and no other libibverbs.
const MARK: &[u8] = b"ROCE_DATAPATH";

/// The library, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// Absolute, with all links followed.
    path: PathBuf,
    /// A folder that has the library under its right names already.
    folder: Option<PathBuf>,
    /// The names by which programs ask for it.
    names: Vec<&'static str>,
}

impl Library {
    /// Looks for it: where `said` says, else where `ROCE_LIBRARY_DIR` says, else beside this
    /// command and in `../lib/roce` of it.
    ///
    /// # Errors
    /// If it isn't there, or is another one; the error says how to build it.
    pub(crate) fn find(said: Option<&Path>) -> Result<Self, RunError> {
        let variable = env::var_os("ROCE_LIBRARY_DIR").filter(|value| !value.is_empty());
        let candidates = match (said, variable) {
            (Some(path), _) => in_or_at(path),
            (None, Some(folder)) => in_or_at(Path::new(&folder)),
            (None, None) => beside_this_command(),
        };
        let found = candidates.iter().find(|path| path.is_file());
        let Some(found) = found else {
            return Err(RunError::NoLibrary { looked: candidates });
        };
        let path = found
            .canonicalize()
            .map_err(|e| RunError::system(format!("find {}", found.display()), e))?;
        let bytes =
            fs::read(&path).map_err(|e| RunError::system(format!("read {}", path.display()), e))?;
        if !holds(&bytes, MARK) {
            return Err(RunError::OtherLibrary { library: path });
        }
        let mut names = NAMES.to_vec();
        if holds(&bytes, CM_SYMBOL) {
            names.extend(CM_NAMES);
        }
        let folder = folder_of(found);
        Ok(Self {
            path,
            folder,
            names,
        })
    }

    /// The file itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The library that shows made-up files to programs that preload it.
    ///
    /// # Errors
    /// The places where it is not.
    pub(crate) fn preload(&self) -> Result<PathBuf, Vec<PathBuf>> {
        let beside = self.path.with_file_name(PRELOAD);
        let others = beside_this_command().into_iter();
        let mut candidates: Vec<PathBuf> = std::iter::once(beside)
            .chain(others.map(|path| path.with_file_name(PRELOAD)))
            .collect();
        candidates.dedup();
        match candidates.iter().find(|path| path.is_file()) {
            Some(found) => Ok(found.clone()),
            None => Err(candidates),
        }
    }

    /// Links to the library, as entries of `folder`.
    pub(crate) fn links(&self, folder: &Path) -> impl Iterator<Item = (PathBuf, &Path)> {
        let folder = folder.to_owned();
        let names = self.names.iter();
        names.map(move |name| (folder.join(name), self.path.as_path()))
    }

    /// A folder that has the library under the names that programs ask for, if one is
    /// installed so.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Puts links with those names into a folder.
    ///
    /// # Errors
    /// If one can't be made; one that is there already and is right is left alone.
    pub(crate) fn link_into(&self, folder: &Path) -> io::Result<()> {
        for name in &self.names {
            let link = folder.join(name);
            if link.canonicalize().is_ok_and(|target| target == self.path) {
                continue;
            }
            symlink(&self.path, link)?;
        }
        Ok(())
    }
}

/// Where it may be if `path` is it, or its folder.
fn in_or_at(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        [NAMES[0], BUILT].map(|name| path.join(name)).to_vec()
    } else {
        vec![path.to_owned()]
    }
}

/// Where it may be if nothing is said.
fn beside_this_command() -> Vec<PathBuf> {
    let Some(own) = env::current_exe()
        .ok()
        .and_then(|own| own.canonicalize().ok())
    else {
        return Vec::new();
    };
    let beside = own.parent().unwrap_or(Path::new("/"));
    let installed = beside.parent().unwrap_or(Path::new("/")).join("lib/roce");
    vec![
        installed.join(NAMES[0]),
        beside.join(BUILT),
        installed.join(BUILT),
    ]
}

/// The folder of a library that bears its right name.
fn folder_of(found: &Path) -> Option<PathBuf> {
    let right = found.file_name() == Some(OsStr::new(NAMES[0]));
    let folder = found.parent()?.canonicalize().ok()?;
    right.then_some(folder)
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// A search path with `folder` in front. The loader takes an empty entry for the current
/// folder, so none is made; and one that is there in front already is not repeated.
pub(crate) fn prepend(folder: &Path, before: Option<&OsStr>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        let first = env::split_paths(before).next();
        if first.as_deref() == Some(folder) {
            return before.to_owned();
        }
        path.push(":");
        path.push(before);
    }
    path
}

/// Whether the loader can be told of a folder: it takes colons and semicolons for separators.
pub(crate) fn can_be_searched(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_encoded_bytes();
    !bytes.iter().any(|byte| matches!(byte, b':' | b';' | b'$'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_path_keeps_what_it_had() {
        let folder = Path::new("/a b/lib");
        let with = |before: &str| prepend(folder, Some(OsStr::new(before)));
        assert_eq!(prepend(folder, None), "/a b/lib");
        assert_eq!(with(""), "/a b/lib");
        assert_eq!(with("/x:/y"), "/a b/lib:/x:/y");
        assert_eq!(with("/a b/lib:/y"), "/a b/lib:/y");
        // The current folder, as it was.
        assert_eq!(with(":/y"), "/a b/lib::/y");
    }

    #[test]
    fn names_follow_what_the_library_exports() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = |bytes: &[u8]| {
            fs::write(folder.path().join(BUILT), bytes).expect("written");
            Library::find(Some(folder.path())).map(|found| found.names.len())
        };
        assert_eq!(names(b"\0ROCE_DATAPATH\0ibv_open_device\0").ok(), Some(2));
        let with_cm = b"\0ROCE_DATAPATH\0rdma_create_event_channel\0";
        assert_eq!(names(with_cm).ok(), Some(4));
        let other = names(b"\0ibv_open_device\0").expect_err("another libibverbs");
        assert!(other.to_string().contains("is not this stack's"), "{other}");
    }

    #[test]
    fn links_are_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("there").join(BUILT);
        fs::write(&path, MARK).expect("written");
        let found = Library::find(Some(folder.path())).expect("found");
        assert_eq!((found.path(), found.folder()), (path.as_path(), None));
        found.link_into(folder.path()).expect("linked");
        found.link_into(folder.path()).expect("linked already");
        let found = Library::find(Some(folder.path())).expect("found");
        assert_eq!(found.path(), path);
        assert!(found.folder().is_some(), "it bears its right name now");
    }

    #[test]
    fn a_library_that_is_not_there_is_told_with_how_to_build_it() {
        let error = Library::find(Some(Path::new("/nonexistent"))).expect_err("not there");
        let text = error.to_string();
        assert!(
            text.contains("/nonexistent") && text.contains("cargo build"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_with_a_separator_can_not_be_searched() {
        assert!(can_be_searched(Path::new("/a b/lib")));
        for folder in ["/a:b", "/a;b", "/$LIB"] {
            assert!(!can_be_searched(Path::new(folder)), "{folder}");
        }
    }
}
