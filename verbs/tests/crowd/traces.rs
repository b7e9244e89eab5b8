//! The traces that processes could leave behind: files, shared memory, sockets.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use tempfile::TempDir;

/// The folder in which programs share memory by name.
const SHARED_MEMORY: &str = "/dev/shm";

/// What existed before the run.
pub(super) struct Traces {
    /// The working folder of all players, which is also their folder for temporary files.
    folder: TempDir,
    shared: BTreeSet<String>,
}

impl Traces {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            shared: ours_in(Path::new(SHARED_MEMORY)),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Checks that the players left nothing behind.
    pub(super) fn assert_none(&self, address: Ipv4Addr) {
        let local = format!("{:08X}:12B7", u32::from_ne_bytes(address.octets()));
        let name = format!("/{address}%");
        for (table, what) in [("udp", local), ("unix", name)] {
            let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
            let text = text.expect("a table");
            let left: Vec<&str> = text.lines().filter(|line| line.contains(&what)).collect();
            assert_eq!(left, Vec::<&str>::new(), "left over in {table}");
        }
        let files: Vec<_> = fs::read_dir(self.folder()).expect("a folder").collect();
        assert!(files.is_empty(), "left over: {files:?}");
        let shared = ours_in(Path::new(SHARED_MEMORY));
        assert_eq!(shared, self.shared, "left over in {SHARED_MEMORY}");
    }
}

/// Names that could be this stack's. Other programs on this host have other names.
fn ours_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("roce")).collect()
}

/// Checks that a running process has nothing that could outlive it: no files and no shared memory.
pub(super) fn assert_holds_nothing_persistent(pid: u32) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let ours = open_here();
    let rights = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    let shared = maps
        .lines()
        .filter(|line| rights(line).is_some_and(|rights| rights.ends_with('s')))
        // The kernel frees a lane's memory with the last process that has mapped it.
        .filter(|line| !line.ends_with("/memfd:roce-lane (deleted)"));
    assert_eq!(shared.collect::<Vec<_>>(), Vec::<&str>::new());
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
    for entry in open.map(|entry| entry.expect("an entry")) {
        // It may have been closed meanwhile.
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        let has_kind = ["socket:", "anon_inode:", "pipe:"].map(|kind| target.starts_with(kind));
        // The files that the caller of this test has open are not the stack's.
        let inherited = || ours.contains(&*target);
        assert!(has_kind.contains(&true) || inherited(), "{target} is open");
    }
}

/// The number of lanes whose memory a process has mapped.
pub(super) fn lanes_of(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    maps.matches("/memfd:roce-lane").count()
}

/// The files that the parent itself has open.
fn open_here() -> BTreeSet<String> {
    let open = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}
