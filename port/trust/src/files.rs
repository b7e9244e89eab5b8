//! Files that a process writes at paths that users choose.
//!
//! A folder may belong to another user, who can put a link at any name in it. A process that
//! followed the link would overwrite a file of its own user, or create one where the other user
//! cannot. So a link is followed only if it belongs to this user or to root, and never at the last
//! name of a path; and a file that exists is changed only if it belongs to this user.
//!
//! In a user namespace, a link of root's may look like another user's. Links whose owner cannot be
//! told are followed, except from folders that all users can write to.

use crate::OwnUser;
use libc::c_int;
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The maximum number of links on the way to a file, as in Linux.
const MAX_LINKS: u32 = 40;

/// The maximum length of a link's text, in bytes.
const MAX_LINK_BYTES: usize = libc::PATH_MAX as usize;

/// The permissions of a new file that holds nothing secret; the process's mask removes some.
const MODE: u32 = 0o666;

/// Creates a file, or replaces the contents of this user's. A pipe of this user, a device, such as
/// `/dev/null`, and one of the kernel's names for this process's open files, such as `/dev/stdout`,
/// are written to.
///
/// # Errors
/// If the path is another user's file or pipe, a link or a disk, or the file can't be written.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(contents.as_ref())
}

/// Opens a file as [`write()`] does.
///
/// # Errors
/// See [`write()`].
pub fn create(path: &Path) -> io::Result<File> {
    if is_descriptor_path(path) {
        return File::options().write(true).open(path);
    }
    let user = OwnUser::now();
    let is_own_pipe = |found: &Metadata| found.file_type().is_fifo() && user.is(found.uid());
    // Opening a pipe waits for its reader. Another user's may have none, for ever.
    let waits = std::fs::symlink_metadata(path).is_ok_and(|found| is_own_pipe(&found));
    let no_wait = if waits { 0 } else { libc::O_NONBLOCK };
    let file = open(path, libc::O_WRONLY | libc::O_CREAT | no_wait, MODE)?;
    let found = file.metadata()?;
    if !found.file_type().is_char_device() && !is_own_pipe(&found) {
        check_own(&file)?;
        file.set_len(0)?;
    }
    // SAFETY: the descriptor is open, and the flags are those that can be changed.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
    Ok(file)
}

/// Opens a file of this user to read and to append to it. A new file is readable by its user only.
///
/// # Errors
/// If the path is not a regular file of this user, or can't be opened.
pub fn append(path: &Path) -> io::Result<File> {
    let flags = libc::O_RDWR | libc::O_APPEND | libc::O_CREAT | libc::O_NONBLOCK;
    let file = open(path, flags, 0o600)?;
    check_own(&file)?;
    Ok(file)
}

/// Whether a path is one of the kernel's names for this process's open files. These are links that
/// no other process can replace.
pub fn is_descriptor_path(path: &Path) -> bool {
    let paths = ["/dev/stdout", "/dev/stderr"].map(Path::new);
    paths.contains(&path) || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Checks that a file may be changed.
///
/// # Errors
/// If it is no regular file, belongs to another user, or has a second name, under which somebody may
/// have linked a file of this user here.
pub fn check_own(file: &File) -> io::Result<()> {
    let (found, user) = (file.metadata()?, OwnUser::now());
    let refused = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    if !found.is_file() {
        return refused("it is not a regular file".to_owned());
    }
    if !user.is(found.uid()) {
        let (owner, own) = (user.describe(found.uid()), user.describe(user.id()));
        return refused(format!("it belongs to {owner}, and this is {own}"));
    }
    if found.nlink() > 1 {
        return refused("it has a second name (a hard link)".to_owned());
    }
    Ok(())
}

/// Opens a file as `open(2)` does with these flags. Follows no link at the last name, and none of
/// another user on the way.
///
/// # Errors
/// The kernel's, or what is wrong with a link.
pub fn open(path: &Path, flags: c_int, mode: u32) -> io::Result<File> {
    let (folder, name) = walk(path, false)?;
    let Some(name) = name else {
        return Err(io::Error::other("it is a folder"));
    };
    let flags = flags | libc::O_NOFOLLOW;
    match open_at(folder.as_raw_fd(), &name, flags, mode) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is a symbolic link, which is not followed",
        )),
        result => Ok(File::from(result?)),
    }
}

/// Creates a folder and those above it, as far as they do not exist. Follows no link of another user.
/// Returns the folder's absolute path, in which there are no links.
///
/// # Errors
/// The kernel's, or what is wrong with a link.
pub fn create_folders(path: &Path) -> io::Result<PathBuf> {
    // With this end, all names are of folders on the way.
    let (folder, _) = walk(&path.join("."), true)?;
    if !File::from(folder.try_clone()?).metadata()?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The folder that a path's last name is in, and that name; no name if the path ends with `.` or
/// `..`. Missing folders on the way are created if `create` is set.
fn walk(path: &Path, create: bool) -> io::Result<(OwnedFd, Option<OsString>)> {
    let user = OwnUser::now();
    let ends_with_folder = path.as_os_str().as_bytes().ends_with(b"/.")
        || !matches!(path.components().next_back(), Some(Component::Normal(_)));
    let mut left: VecDeque<OsString> = names(path);
    let last = match ends_with_folder {
        true => None,
        false => left.pop_back(),
    };
    let mut folder = begin(path)?;
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        let found = match look_at(&folder, &name) {
            Err(error) if error.kind() == ErrorKind::NotFound && create => {
                make_folder_at(&folder, &name)?;
                look_at(&folder, &name)?
            }
            found => found?,
        };
        let metadata = File::from(found.try_clone()?).metadata()?;
        if !metadata.is_symlink() {
            folder = found;
            continue;
        }
        if !may_follow(&user, &metadata, &folder)? {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                format!(
                    "{name:?} is a symbolic link that belongs to {}, and is not followed",
                    user.describe(metadata.uid())
                ),
            ));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = read_link(&found)?;
        if target.as_bytes().starts_with(b"/") {
            folder = begin(Path::new(&target))?;
        }
        let mut names = names(Path::new(&target));
        names.append(&mut left);
        left = names;
    }
    Ok((folder, last))
}

/// Whether a link in a folder may be followed.
fn may_follow(user: &OwnUser, link: &Metadata, folder: &OwnedFd) -> io::Result<bool> {
    if user.is_one_user(link.uid()) {
        return Ok(user.is_or_root(link.uid()));
    }
    let folder = File::from(folder.try_clone()?).metadata()?;
    Ok(folder.mode() & 0o002 == 0)
}

/// The names in a path.
fn names(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// The folder that a path begins at.
fn begin(path: &Path) -> io::Result<OwnedFd> {
    let begin = if path.is_absolute() { "/" } else { "." };
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    open_at(libc::AT_FDCWD, OsStr::new(begin), flags, 0)
}

/// A descriptor of what has a name in a folder, a link itself, not what it points to. It serves to
/// examine it and to go on from it.
fn look_at(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    open_at(folder.as_raw_fd(), name, libc::O_PATH | libc::O_NOFOLLOW, 0)
}

fn open_at(folder: c_int, name: &OsStr, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: the name is a string, and the call keeps no pointer to it.
    let fd = unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn make_folder_at(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: the name is a string, and the call keeps no pointer to it.
    let result = unsafe { libc::mkdirat(folder.as_raw_fd(), name.as_ptr(), 0o777) };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Another process has made it meanwhile.
            error if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            error => Err(error),
        },
    }
}

/// Where a link points to, given a descriptor of the link itself.
fn read_link(link: &OwnedFd) -> io::Result<OsString> {
    let mut target = vec![0_u8; MAX_LINK_BYTES];
    // SAFETY: the name is a string, and the pointer and the length are those of the vector.
    let len = unsafe {
        libc::readlinkat(
            link.as_raw_fd(),
            c"".as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    target.truncate(usize::try_from(len).map_err(|_| io::Error::last_os_error())?);
    Ok(OsString::from_vec(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    fn refusal(path: &Path) -> String {
        let error = write(path, "new").expect_err("it is refused");
        error.to_string()
    }

    #[test]
    fn own_files_are_made_and_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a/b/../b/./c");
        create_folders(path.parent().expect("it has one")).expect("made");
        symlink("a", dir.path().join("link")).expect("made");
        let found = create_folders(&dir.path().join("link/b")).expect("there");
        assert_eq!(found, dir.path().canonicalize().expect("there").join("a/b"));
        write(&path, "a long text").expect("written");
        write(&path, "text").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "text");
        append(&path)
            .expect("own")
            .write_all(b"+")
            .expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "text+");
        let private = dir.path().join("private");
        append(&private).expect("made");
        let mode = fs::metadata(&private).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        write(Path::new("/dev/null"), "text").expect("a device");
        let open = File::create(dir.path().join("open")).expect("made");
        let descriptor = format!("/dev/fd/{}", open.as_raw_fd());
        write(Path::new(&descriptor), "").expect("a descriptor");
    }

    #[test]
    fn no_link_is_followed_at_the_last_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "precious").expect("written");
        symlink(at("precious"), at("link")).expect("made");
        symlink(at("nowhere"), at("dangling")).expect("made");
        fs::hard_link(at("precious"), at("hard")).expect("made");
        assert!(refusal(&at("link")).contains("symbolic link"));
        assert!(refusal(&at("dangling")).contains("symbolic link"));
        assert!(refusal(&at("hard")).contains("second name"));
        assert!(append(&at("link")).is_err());
        assert!(!at("nowhere").exists());
        assert_eq!(
            fs::read_to_string(at("precious")).expect("there"),
            "precious"
        );
        assert!(write(dir.path(), "").is_err() && write(Path::new(".."), "").is_err());
        let error = create_folders(&at("precious")).expect_err("it is a file");
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn own_links_on_the_way_are_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("real/deep")).expect("made");
        symlink("real", at("relative")).expect("made");
        symlink(at("relative/deep"), at("absolute")).expect("made");
        write(&at("absolute/../file"), "text").expect("written");
        assert_eq!(fs::read_to_string(at("real/file")).expect("there"), "text");
        create_folders(&at("absolute/more/and/more")).expect("made");
        assert!(at("real/deep/more/and/more").is_dir());
        symlink("loop", at("loop")).expect("made");
        let error = write(&at("loop/file"), "").expect_err("it has no end");
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
    }

    /// As in a namespace that does not map root.
    #[test]
    fn links_without_a_known_owner_are_followed_unless_anybody_may_have_put_them_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let link = dir.path().join("link");
        symlink(".", &link).expect("made");
        let link = fs::symlink_metadata(&link).expect("there");
        let follows = |user: &OwnUser| {
            let folder = OwnedFd::from(File::open(dir.path()).expect("a folder"));
            may_follow(user, &link, &folder).expect("there")
        };
        let owner = link.uid();
        let unknown = OwnUser::new(owner + 1, Some(owner));
        for (mode, expected) in [(0o755, true), (0o1777, false), (0o777, false)] {
            fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).expect("allowed");
            assert_eq!(follows(&unknown), expected, "{mode:o}");
            assert!(follows(&OwnUser::new(owner, None)));
        }
        // Root's are root's, wherever they are.
        assert_eq!(follows(&OwnUser::new(owner + 1, None)), owner == 0);
    }

    /// Root writes into another user's folder.
    #[test]
    fn another_users_links_and_files_are_left_alone() {
        if !testkit::root_or_skip() {
            return;
        }
        const OTHER: Option<u32> = Some(12_345);
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        chown(dir.path(), OTHER, None).expect("root may");
        fs::create_dir(at("roots")).expect("made");
        symlink(at("roots"), at("link")).expect("made");
        lchown(at("link"), OTHER, None).expect("root may");
        fs::write(at("theirs"), "theirs").expect("written");
        chown(at("theirs"), OTHER, None).expect("root may");
        assert!(refusal(&at("link/file")).contains("belongs to user 12345"));
        assert!(create_folders(&at("link/folder")).is_err());
        assert!(refusal(&at("theirs")).contains("belongs to user 12345, and this is root"));
        assert_eq!(fs::read_dir(at("roots")).expect("there").count(), 0);
        assert_eq!(fs::read_to_string(at("theirs")).expect("there"), "theirs");
        write(&at("new"), "text").expect("a new file is no harm");
    }
}
