//! The kinds of file systems, by where they keep the contents of files.

use nix::sys::stat::stat;
use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, statfs};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// File systems whose files are in memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "hugetlbfs", "devtmpfs"];

const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub(super) kind: String,
    /// Its files may be on persistent memory, which processors access directly.
    pub(super) may_be_dax: bool,
}

impl FileSystem {
    pub(super) fn is_volatile(&self) -> bool {
        IN_MEMORY.contains(&self.kind.as_str())
    }
}

/// The file system with this device number, by a list of mounts such as `/proc/self/mountinfo`.
pub(super) fn mounted(mounts: &str, device: &str) -> Option<FileSystem> {
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(2);
        if mount.next()? != device {
            return None;
        }
        let mut system = system.split(' ');
        let kind = system.next()?.to_owned();
        let options = system.nth(1).unwrap_or_default().split(',');
        let mut options = options.chain(mount.nth(2).unwrap_or_default().split(','));
        let may_be_dax = options.any(|option| {
            let value = option.strip_prefix("dax");
            value.is_some_and(|value| matches!(value, "" | "=always" | "=inode"))
        });
        Some(FileSystem { kind, may_be_dax })
    })
}

/// The file system of a file that still has this name and inode.
pub(super) fn of_file(path: &str, inode: u64) -> Option<FileSystem> {
    let path = Path::new(path);
    let found = stat(path).ok()?;
    if found.st_ino != inode {
        return None;
    }
    let kind = match statfs(path).ok()?.filesystem_type() {
        TMPFS_MAGIC => "tmpfs",
        HUGETLBFS_MAGIC => "hugetlbfs",
        RAMFS_MAGIC => "ramfs",
        _ => "another file system",
    };
    Some(FileSystem {
        kind: kind.to_owned(),
        may_be_dax: false,
    })
}

/// Whether a path is that of a device that gives access to persistent memory, such as `/dev/dax0.0`.
pub(super) fn is_device_dax(path: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = fs::metadata(path) else {
        return false;
    };
    if !found.file_type().is_char_device() {
        return false;
    }
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    let subsystem = fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"));
    subsystem.is_ok_and(|link| link.file_name().is_some_and(|name| name == "dax"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684084k
31 27 259:0 / /mnt/p rw,relatime shared:7 - ext4 /dev/pmem0 rw,dax=always
32 27 259:1 / /mnt/q rw,relatime - xfs /dev/pmem1 rw,attr2,dax=never
33 27 259:2 / /mnt/r rw,dax - ext4 /dev/pmem2 rw
";

    #[test]
    fn mounts_are_found_by_their_device() {
        let found = |device| mounted(MOUNTS, device).expect("mounted");
        assert_eq!(found("254:0").kind, "ext4");
        assert!(!found("254:0").is_volatile() && !found("254:0").may_be_dax);
        assert!(found("0:27").is_volatile());
        assert!(found("259:0").may_be_dax && !found("259:1").may_be_dax);
        assert!(found("259:2").may_be_dax);
        assert_eq!(mounted(MOUNTS, "0:1"), None);
    }

    #[test]
    fn a_file_is_that_of_its_name_only_with_its_inode() {
        use std::os::unix::fs::MetadataExt;
        let path = "/proc/self/exe";
        let inode = fs::metadata(path).expect("this program").ino();
        assert!(of_file(path, inode).is_some());
        assert!(of_file(path, inode + 1).is_none());
        assert!(of_file("/nothing/here", inode).is_none());
    }

    #[test]
    fn another_device_is_no_persistent_memory() {
        assert!(!is_device_dax("/dev/null"));
        assert!(!is_device_dax("/nothing/here"));
        assert!(!is_device_dax("/proc/self/exe"));
    }
}
