//! The device files as a folder on disk, for programs that preload a library which shows them.
//!
//! `roce run` becomes the program, so no process remains to remove the folder. The folder's name is
//! a hash of its contents, so the next run with the same devices reuses it. A later run removes a
//! folder that no run has used for a month.
//!
//! The folder's parent is writable only by this user, because anyone with write access could choose
//! the library that the program loads.

use super::library::Library;
use super::tree::{DeviceFiles, Tree};
use nix::sys::stat::{Mode, umask};
use roce_trust::OwnUser;
use std::env;
use std::fs::{self, DirBuilder, DirEntry, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long an unused folder is kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The library that shows the files.
const PRELOAD: &str = "lib/libroce_preload.so";

/// A folder with made-up files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Makes the folder, or reuses an existing one.
    ///
    /// # Errors
    /// Why no folder is possible.
    pub(crate) fn of(device_files: &DeviceFiles, library: &Library) -> Result<Self, String> {
        let preload = library.preload().map_err(|searched| {
            format!(
                "libroce_preload.so is not there (looked for {searched}): build it with `cargo build -p \
                 roce-preload`"
            )
        })?;
        let mut tree = device_files
            .full_tree()
            .map_err(|error| format!("list /sys: {error}"))?;
        tree.link(PRELOAD, preload);
        for (link, target) in library.links(Path::new("lib")) {
            tree.link(link, target);
        }
        // Root may start the program as another user.
        let before = umask(Mode::from_bits_truncate(0o022));
        let made = Self::write(&tree, &places());
        umask(before);
        made
    }

    fn write(tree: &Tree, places: &[PathBuf]) -> Result<Self, String> {
        let mut why = Vec::new();
        let try_in = |place: &Path| ensure_private(place).and_then(|()| write(place, tree));
        for place in places {
            match try_in(place) {
                Ok(root) => return Ok(Self { root }),
                Err(error) => why.push(format!("{}: {error}", place.display())),
            }
        }
        // Other users can take these names, but not all names.
        for place in places.iter().flat_map(|place| alternatives(place)) {
            if let Ok(root) = try_in(&place) {
                return Ok(Self { root });
            }
        }
        Err(format!("no private folder ({})", why.join("; ")))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder with links to the library.
    pub(crate) fn links(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The library for programs to preload.
    pub(crate) fn preload(&self) -> PathBuf {
        self.root.join(PRELOAD)
    }
}

/// Folders that may be private to this user, the best first. Spaces and colons are separators for
/// the loader.
fn places() -> Vec<PathBuf> {
    let own = format!("roce-{}", OwnUser::now().id());
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let mut places: Vec<PathBuf> = runtime
        .map(|folder| Path::new(&folder).join("roce"))
        .into_iter()
        .collect();
    places.push(env::temp_dir().join(&own));
    places.push(Path::new("/tmp").join(&own));
    places.push(Path::new("/dev/shm").join(&own));
    places.retain(|place| place.is_absolute() && super::fits_in_ld_preload(place));
    places.dedup();
    places
}

/// Folders to take instead of one whose name another user has taken: those of earlier runs, then a
/// new one with a name that nobody can guess.
fn alternatives(place: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return Vec::new();
    };
    let (user, prefix) = (OwnUser::now(), format!("{}-", name.display()));
    let is_own = |entry: &DirEntry| {
        let begins = entry.file_name().to_string_lossy().starts_with(&prefix);
        begins && entry.metadata().is_ok_and(|found| user.is(found.uid()))
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.filter(is_own).map(|entry| entry.path()).collect();
    folders.sort_unstable();
    if let Ok(random) = getrandom::u64() {
        folders.push(parent.join(format!("{prefix}{random:016x}")));
    }
    folders.retain(|folder| super::fits_in_ld_preload(folder));
    folders
}

/// Makes a folder that no other user can write to, or checks an existing one.
fn ensure_private(folder: &Path) -> io::Result<()> {
    let parent = fs::metadata(folder.parent().unwrap_or(folder))?;
    let others_write = parent.mode() & 0o022 != 0;
    let sticky = parent.mode() & 0o1000 != 0;
    let user = OwnUser::now();
    if !user.is_or_root(parent.uid()) || (others_write && !sticky) {
        return Err(io::Error::other("others can replace it"));
    }
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is no folder"));
    }
    if !user.is(found.uid()) {
        let owner = user.describe(found.uid());
        return Err(io::Error::other(format!("it belongs to {owner}")));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write to it"));
    }
    Ok(())
}

/// Writes a tree to a folder in `place` that is named after its contents, and removes old ones.
fn write(place: &Path, tree: &Tree) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    tree.hash(&mut hasher);
    let root = place.join(format!("{:016x}", hasher.finish()));
    if root.is_dir() {
        // A clean-up job may have removed files in it, or a program run by root may have changed
        // them.
        tree.repair(&root)?;
        // The time only determines when the folder is removed.
        let _ = File::open(&root).and_then(|file| file.set_modified(SystemTime::now()));
    } else {
        let random = getrandom::u64().map_err(io::Error::other)?;
        let new = place.join(format!(".new-{random:016x}"));
        DirBuilder::new().mode(0o755).create(&new)?;
        tree.write(&new)?;
        if let Err(error) = fs::rename(&new, &root) {
            let _ = fs::remove_dir_all(&new);
            // Another run has created it meanwhile.
            if !root.is_dir() {
                return Err(error);
            }
        }
    }
    remove_old(place, &root);
    Ok(root)
}

/// Removes folders that no run has used for a while. A later run retries those that can't be
/// removed.
fn remove_old(place: &Path, in_use: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        if entry.path() != in_use && age.is_some_and(|age| age > KEPT_FOR) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn tree(text: &str) -> Tree {
        let mut tree = Tree::default();
        tree.file("sys/class/infiniband/x", text);
        tree.link("lib/y", "/nonexistent");
        tree
    }

    #[test]
    fn equal_content_has_one_folder() {
        let place = tempfile::tempdir().expect("a folder");
        let first = write(place.path(), &tree("1")).expect("written");
        assert_eq!(write(place.path(), &tree("1")).expect("found"), first);
        let file = first.join("sys/class/infiniband/x");
        fs::remove_file(&file).expect("removed");
        write(place.path(), &tree("1")).expect("found");
        assert_eq!(fs::read_to_string(&file).expect("there again"), "1");
        fs::remove_file(&file).expect("removed");
        fs::write(&file, "changed").expect("written");
        write(place.path(), &tree("1")).expect("found");
        assert_eq!(fs::read_to_string(&file).expect("there"), "1");
        let second = write(place.path(), &tree("2")).expect("written");
        assert_ne!(first, second);
        let names = fs::read_dir(place.path()).expect("there").count();
        assert_eq!(names, 2, "nothing else is left");
    }

    #[test]
    fn unused_folders_are_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let old = write(place.path(), &tree("1")).expect("written");
        let long_ago = SystemTime::now() - KEPT_FOR - Duration::from_secs(60);
        let file = File::open(&old).expect("a folder");
        file.set_modified(long_ago).expect("set");
        write(place.path(), &tree("1")).expect("taken again");
        let new = write(place.path(), &tree("2")).expect("written");
        assert!(old.is_dir() && new.is_dir());
        file.set_modified(long_ago).expect("set");
        write(place.path(), &tree("2")).expect("found");
        assert!(!old.exists() && new.is_dir());
    }

    #[test]
    fn a_name_that_is_taken_is_replaced_by_another() {
        let parent = tempfile::tempdir().expect("a folder");
        let place = parent.path().join("roce-1000");
        // As of another user: `ensure_private` refuses it.
        fs::write(&place, "").expect("written");
        fs::write(parent.path().join("roce-1000-0"), "").expect("written");
        fs::create_dir(parent.path().join("roce-1000-open")).expect("made");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(parent.path().join("roce-1000-open"), open).expect("allowed");
        let places = [place];
        let first = Folder::write(&tree("1"), &places).expect("another name");
        let chosen = first.root().parent().expect("it has one");
        assert!(chosen.display().to_string().contains("/roce-1000-"));
        let second = Folder::write(&tree("1"), &places).expect("the same name");
        assert_eq!(first, second, "a run finds the folder of an earlier one");
        assert_eq!(fs::read_dir(parent.path()).expect("there").count(), 4);
    }

    /// A user who guesses the name must not control the library that a program loads.
    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        let place = parent.path().join("roce");
        ensure_private(&place).expect("made");
        ensure_private(&place).expect("found");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("allowed");
        };
        for open in [0o777, 0o775, 0o757] {
            mode(&place, open);
            let error = ensure_private(&place).expect_err("open to others");
            assert!(error.to_string().contains("others can write"), "{error}");
        }
        mode(&place, 0o755);
        mode(parent.path(), 0o777);
        let error = ensure_private(&place).expect_err("it can be replaced");
        assert!(error.to_string().contains("replace"), "{error}");
        mode(parent.path(), 0o1777);
        ensure_private(&place).expect("the parent is sticky");
        let link = parent.path().join("link");
        symlink(&place, &link).expect("linked");
        let error = ensure_private(&link).expect_err("a link");
        assert!(error.to_string().contains("no folder"), "{error}");
        if OwnUser::now().id() == 0 {
            std::os::unix::fs::chown(&place, Some(65534), None).expect("root may");
            let error = ensure_private(&place).expect_err("somebody else's");
            assert!(error.to_string().contains("user 65534"), "{error}");
        }
    }
}
