//! The sysfs files that RDMA programs read directly, as a value.
//!
//! Names and formats are those of the kernel's own software RNIC: programs know them, and consider
//! a device without them broken.

mod device;
mod facts;

pub(crate) use facts::Facts;

use roce_verbs::Device;
use roce_verbs::datapath::DatapathOptions;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The kernel's version number of its verbs interface.
const VERBS_ABI: &str = "6\n";

/// Files, links and folders below one root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    entries: Vec<(PathBuf, Node)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A folder, which may be empty.
    Folder,
    /// A file with this text.
    File(String),
    Link(PathBuf),
}

/// The generated files: a tree for `/sys/class`, and device files for `/dev/infiniband`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceFiles {
    /// Below `/sys/class`.
    pub(crate) class: Tree,
    /// The names of the character devices in `/dev/infiniband`. Each is [`Self::DEVICE`] under
    /// another name.
    pub(crate) dev: Vec<String>,
}

impl DeviceFiles {
    /// The folders of `class` in `/sys/class`. They hide the kernel's own: a program sees either
    /// the devices of this stack or those of the kernel, never both.
    pub(crate) const CLASSES: [&'static str; 5] = [
        "infiniband",
        "infiniband_cm",
        "infiniband_mad",
        "infiniband_srp",
        "infiniband_verbs",
    ];

    /// The device behind every name in `/dev/infiniband`. UCX uses an RDMA device only if its
    /// `uverbsN` is a character device that opens for reading and writing. A write to this one
    /// fails with `ENOSPC` and an ioctl with `ENOTTY`, so a program that bypasses the library gets
    /// an error, not a success.
    pub(crate) const DEVICE: &'static str = "/dev/full";

    /// The files of these devices now, for programs that open them with these options.
    pub(crate) fn of(devices: &[Device], options: &DatapathOptions) -> Self {
        let facts = devices.iter().map(|device| Facts::of(device, options));
        Self::new(&facts.collect::<Vec<_>>())
    }

    /// The files without any device.
    pub(crate) fn none() -> Self {
        Self::new(&[])
    }

    fn new(devices: &[Facts]) -> Self {
        let (mut class, mut dev) = (Tree::default(), vec!["rdma_cm".to_owned()]);
        class.folder("infiniband");
        class.file("infiniband_verbs/abi_version", VERBS_ABI);
        for facts in devices {
            device::add(&mut class, facts);
            uverbs(&mut class, facts);
            dev.push(format!("uverbs{}", facts.index));
        }
        Self { class, dev }
    }

    /// `sys`, with all of `/sys` and the generated files, and `dev/infiniband`. Device files are
    /// links, which need no privilege.
    ///
    /// # Errors
    /// If `/sys` can't be listed.
    pub(crate) fn full_tree(&self) -> io::Result<Tree> {
        let mut full = Tree::default();
        let class = Path::new("sys/class");
        for (path, node) in &self.class.entries {
            full.entries.push((class.join(path), node.clone()));
        }
        // The rest of /sys, so that the folder can replace it.
        full.link_others(Path::new("/sys"), &["class"])?;
        full.link_others(Path::new("/sys/class"), &Self::CLASSES)?;
        for name in &self.dev {
            full.link(Path::new("dev/infiniband").join(name), Self::DEVICE);
        }
        Ok(full)
    }
}

/// The entries that connect a device in `/dev` with one in `/sys/class/infiniband`.
fn uverbs(class: &mut Tree, facts: &Facts) {
    let number = facts.index;
    let at = |name: &str| format!("infiniband_verbs/uverbs{number}/{name}");
    class.file(at("abi_version"), "1\n");
    class.file(at("ibdev"), format!("{}\n", facts.name));
    // The device number of `DeviceFiles::DEVICE`. rdma-core compares it with that of the file in
    // /dev.
    class.file(at("dev"), "1:7\n");
    class.file(
        at("uevent"),
        format!("MAJOR=1\nMINOR=7\nDEVNAME=infiniband/uverbs{number}\nDEVMODE=0666\n"),
    );
    class.link(
        at("device"),
        format!("../../infiniband/{}/device", facts.name),
    );
}

impl Tree {
    fn folder(&mut self, path: impl Into<PathBuf>) {
        self.entries.push((path.into(), Node::Folder));
    }

    pub(crate) fn file(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.entries.push((path.into(), Node::File(text.into())));
    }

    pub(crate) fn link(&mut self, path: impl Into<PathBuf>, target: impl AsRef<Path>) {
        let target = target.as_ref().to_owned();
        self.entries.push((path.into(), Node::Link(target)));
    }

    /// Links to the entries of `from`, except for those in `except`. Does nothing if `from` does
    /// not exist.
    fn link_others(&mut self, from: &Path, except: &[&str]) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(from) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        // Sort the entries, so that equal trees have equal hashes.
        paths.sort();
        for path in paths {
            let hidden = except
                .iter()
                .any(|name| path.file_name() == Some(name.as_ref()));
            if !hidden {
                self.link(path.strip_prefix("/").unwrap_or(&path), &path);
            }
        }
        Ok(())
    }

    /// Writes everything below `root`, which has none of it.
    ///
    /// # Errors
    /// If an entry can't be made; the error names it.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.entries {
            write_one(&root.join(path), node)?;
        }
        Ok(())
    }

    /// Restores what is missing or different below `root`, where everything was written before.
    ///
    /// # Errors
    /// If an entry can't be made; the error names it.
    pub(crate) fn repair(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.entries {
            let path = root.join(path);
            if !matches_node(&path, node) {
                let _ = fs::remove_file(&path);
                write_one(&path, node)?;
            }
        }
        Ok(())
    }

    #[cfg(test)]
    fn at(&self, path: &str) -> Option<&Node> {
        let found = self.entries.iter().find(|(at, _)| at == Path::new(path));
        found.map(|(_, node)| node)
    }
}

/// Whether a path has the expected entry.
fn matches_node(path: &Path, node: &Node) -> bool {
    match node {
        Node::Folder => path.is_dir(),
        Node::File(text) => fs::read(path).is_ok_and(|found| found == text.as_bytes()),
        Node::Link(target) => fs::read_link(path).is_ok_and(|found| found == *target),
    }
}

fn write_one(path: &Path, node: &Node) -> io::Result<()> {
    write(path, node)
        .map_err(|error| io::Error::new(error.kind(), format!("make {}: {error}", path.display())))
}

fn write(path: &Path, node: &Node) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match node {
        Node::Folder => fs::create_dir_all(path),
        Node::File(text) => {
            fs::write(path, text)?;
            // Read-only, as in sysfs.
            fs::set_permissions(path, fs::Permissions::from_mode(0o444))
        }
        Node::Link(target) => symlink(target, path),
    }
}

#[cfg(test)]
mod tests;
