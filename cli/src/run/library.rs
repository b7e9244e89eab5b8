//! The library that replaces libibverbs.so.1: its location, and the names by which programs load
//! it.

use crate::error::Error;
use roce_trust::environment;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The command that builds the library beside this program, in the same profile's folder.
const BUILD: &str = if cfg!(debug_assertions) {
    "cargo build -p roce-verbs-shim"
} else {
    "cargo build --release -p roce-verbs-shim"
};

/// Its file name from cargo.
const BUILT: &str = "libroce_verbs_shim.so";

/// The names that programs use. Those that load it with dlopen use either.
const NAMES: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];

/// The library that shows the device files where mounts are not allowed. It is in the same folder.
const PRELOAD: &str = "libroce_preload.so";

/// The library that puts TCP sockets on RDMA: as cargo builds it, and as rdma-core names its own.
const SOCKETS: [&str; 2] = ["libroce_rspreload.so", "librspreload.so"];

/// The names of a library that also has the connection manager.
const CM_NAMES: [&str; 2] = ["librdmacm.so.1", "librdmacm.so"];

/// A symbol of the connection manager: a library that exports it can replace librdmacm.so.1.
const CM_SYMBOL: &[u8] = b"rdma_create_event_channel\0";

/// A variable that this stack reads, and that no other libibverbs contains.
pub(crate) const MARK: &[u8] = b"ROCE_DATAPATH";

/// The library's location and names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// The absolute path, with all links resolved.
    path: PathBuf,
    /// A folder that already has the library under its proper names.
    folder: Option<PathBuf>,
    /// The names that programs use for it.
    names: Vec<&'static str>,
}

impl Library {
    /// Finds the library: at `requested` if given, else at `ROCE_LIBRARY_DIR`, else beside this
    /// command or in `../lib/roce` relative to it.
    ///
    /// # Errors
    /// If it isn't there, or is another library. The message says how to build it.
    pub(crate) fn find(requested: Option<&Path>) -> Result<Self, Error> {
        let variable = environment::variable("ROCE_LIBRARY_DIR");
        let candidates = match (requested, variable) {
            (Some(path), _) => in_or_at(path),
            (None, Some(folder)) => in_or_at(Path::new(&folder)),
            (None, None) => near_this_command(),
        };
        let found = candidates.iter().find(|path| path.is_file());
        let Some(found) = found else {
            return Err(Error::not_run(format_args!(
                "the library that takes libibverbs' place is not there (looked for {}): build it \
                 beside this command with `{BUILD}`, or say where it is with --library or \
                 ROCE_LIBRARY_DIR",
                listed(&candidates)
            )));
        };
        let path = found
            .canonicalize()
            .map_err(|e| Error::system(format_args!("find {}", found.display()), e))?;
        let bytes = fs::read(&path)
            .map_err(|e| Error::system(format_args!("read {}", path.display()), e))?;
        if !contains_bytes(&bytes, MARK) {
            return Err(Error::not_run(format_args!(
                "{} is not this stack's library: name the one that `{BUILD}` makes, or its folder",
                path.display()
            )));
        }
        let mut names = NAMES.to_vec();
        if contains_bytes(&bytes, CM_SYMBOL) {
            names.extend(CM_NAMES);
        }
        let folder = folder_of(found);
        Ok(Self {
            path,
            folder,
            names,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The library that shows the device files to programs that preload it.
    ///
    /// # Errors
    /// The places that were searched.
    pub(crate) fn preload(&self) -> Result<PathBuf, String> {
        self.beside(&[PRELOAD])
    }

    /// The library that puts TCP sockets on RDMA in programs that preload it.
    ///
    /// # Errors
    /// The places that were searched.
    pub(crate) fn sockets(&self) -> Result<PathBuf, String> {
        self.beside(&SOCKETS)
    }

    /// A file with one of these names, beside the library or this command.
    fn beside(&self, names: &[&str]) -> Result<PathBuf, String> {
        let mut candidates: Vec<PathBuf> = std::iter::once(self.path.clone())
            .chain(near_this_command())
            .flat_map(|path| names.iter().map(move |name| path.with_file_name(name)))
            .collect();
        candidates.dedup();
        match candidates.iter().find(|path| path.is_file()) {
            Some(found) => Ok(found.clone()),
            None => Err(listed(&candidates)),
        }
    }

    /// Links to the library, as entries of `folder`.
    pub(crate) fn links(&self, folder: &Path) -> impl Iterator<Item = (PathBuf, &Path)> {
        let folder = folder.to_owned();
        let names = self.names.iter();
        names.map(move |name| (folder.join(name), self.path.as_path()))
    }

    /// A folder that has the library under the names that programs use, if it is installed that
    /// way.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Creates links with those names in a folder.
    ///
    /// # Errors
    /// If a link can't be made. An existing correct link is left alone.
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

/// The error that no folder has links to the library, and none can be made.
pub(crate) fn no_links(library: &Path) -> Error {
    Error::not_run(format_args!(
        "{} is not called libibverbs.so.1, and there is no folder with links to it: `roce env --write \
         FOLDER` makes one",
        library.display()
    ))
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
}

/// The possible files if `path` is the library, or its folder.
fn in_or_at(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        [NAMES[0], BUILT].map(|name| path.join(name)).to_vec()
    } else {
        vec![path.to_owned()]
    }
}

fn near_this_command() -> Vec<PathBuf> {
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

/// The folder of a library with its proper name.
fn folder_of(found: &Path) -> Option<PathBuf> {
    let right = found.file_name() == Some(OsStr::new(NAMES[0]));
    let folder = found.parent()?.canonicalize().ok()?;
    right.then_some(folder)
}

fn contains_bytes(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// A search path with `folder` in front. The loader takes an empty entry for the current folder, so
/// this makes none. It does not repeat a folder that is already in front.
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

/// Whether a search path can contain a folder: colons and semicolons are separators, and `$` begins
/// a token.
pub(crate) fn fits_in_search_path(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_encoded_bytes();
    !bytes.iter().any(|byte| matches!(byte, b':' | b';' | b'$'))
}

/// Whether `LD_PRELOAD` can contain a path: spaces and colons are separators.
pub(super) fn fits_in_ld_preload(path: &Path) -> bool {
    let is_separator = |byte: &u8| byte.is_ascii_whitespace();
    fits_in_search_path(path) && !path.as_os_str().as_encoded_bytes().iter().any(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepending_keeps_the_old_search_path() {
        let folder = Path::new("/a b/lib");
        let with = |before: &str| prepend(folder, Some(OsStr::new(before)));
        assert_eq!(prepend(folder, None), "/a b/lib");
        assert_eq!(with(""), "/a b/lib");
        assert_eq!(with("/x:/y"), "/a b/lib:/x:/y");
        assert_eq!(with("/a b/lib:/y"), "/a b/lib:/y");
        // The current folder, as before.
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
    fn a_missing_library_is_reported_with_the_build_command() {
        let error = Library::find(Some(Path::new("/nonexistent"))).expect_err("not there");
        let text = error.to_string();
        assert!(
            text.contains("/nonexistent") && text.contains("cargo build"),
            "{text}"
        );
    }

    #[test]
    fn a_folder_with_a_separator_can_not_be_searched() {
        assert!(fits_in_search_path(Path::new("/a b/lib")));
        for folder in ["/a:b", "/a;b", "/$LIB"] {
            assert!(!fits_in_search_path(Path::new(folder)), "{folder}");
        }
    }
}
