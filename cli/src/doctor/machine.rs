//! The inputs of the checks: files below a root, the environment, and what this stack offers. Tests
//! make up all of it.

use crate::quote::printable;
use crate::run::frameworks::NamedDevice;
use crate::run::{Library, MARK, probe_namespace};
use roce_verbs::device::BOARD_ID;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The limit for a text file, in bytes, which no file of /proc or /sys reaches.
const MAX_TEXT: u64 = 4 << 20;

/// The machine as a program that is started now would see it.
#[derive(Debug)]
pub(super) struct Machine {
    /// The root directory.
    pub(super) root: PathBuf,
    /// The folder that relative paths start from.
    pub(super) current_dir: PathBuf,
    /// The environment.
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// This stack's library, or why it was not found.
    pub(super) library: Result<PathBuf, String>,
    /// This stack's devices, the loopback last.
    pub(super) devices: Vec<NamedDevice>,
    /// Why the system could not list them, if it could not.
    pub(super) unlisted: Option<String>,
    /// How `roce run` shows a program the device files.
    pub(super) device_view: DeviceView,
}

/// How `roce run` shows a program files that do not exist outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceView {
    /// In a mount namespace.
    Namespace,
    /// With a preloaded library; the text says why not in a namespace.
    Preloaded(String),
    /// Neither way works; the text says why.
    Unavailable(String),
}

impl Machine {
    pub(super) fn here(library: Option<&Path>) -> Self {
        let found = Library::find(library);
        let device_view = match probe_namespace() {
            Ok(()) => DeviceView::Namespace,
            Err(why) if found.as_ref().is_ok_and(|found| found.preload().is_ok()) => {
                DeviceView::Preloaded(why.to_string())
            }
            Err(why) => {
                DeviceView::Unavailable(format!("{why}, and libroce_preload.so is not there"))
            }
        };
        let devices = roce_verbs::device::devices();
        Self {
            root: "/".into(),
            current_dir: env::current_dir().unwrap_or_else(|_| "/".into()),
            environment: env::vars_os().collect(),
            library: found
                .map(|found| found.path().to_owned())
                .map_err(|error| error.to_string()),
            unlisted: devices.as_ref().err().map(ToString::to_string),
            devices: devices.iter().flatten().map(NamedDevice::from).collect(),
            device_view,
        }
    }

    /// The place of an absolute path below the root.
    pub(super) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The machine's own name of a path below the root.
    pub(super) fn display_path(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.root) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => path.to_owned(),
        };
        printable(&shown.to_string_lossy())
    }

    /// The trimmed text of a file; `None` if it can't be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let file = fs::File::open(self.at(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The number in a file.
    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// A variable of the environment that is not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = self.environment.get(&OsString::from(name))?;
        let value = value.to_string_lossy().into_owned();
        (!value.is_empty()).then_some(value)
    }

    /// Whether a file is this stack's library.
    pub(super) fn is_ours(&self, file: &Path) -> bool {
        let same = |ours: &PathBuf| ours.canonicalize().ok() == file.canonicalize().ok();
        if self.library.as_ref().is_ok_and(same) {
            return true;
        }
        // Programs contain the mark, too, so the name has to be the library's.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let named = ["libibverbs", "librdmacm", "libroce"];
        named.iter().any(|start| name.starts_with(start))
            && fs::read(file).is_ok_and(|bytes| memchr::memmem::find(&bytes, MARK).is_some())
    }

    /// The kernel's devices in sysfs. Under `roce run`, this stack's devices are there instead.
    pub(super) fn kernel_devices(&self) -> Vec<String> {
        let class = "/sys/class/infiniband";
        let mut names = self.names(class);
        names.retain(|name| {
            let board = self.text(format!("{class}/{name}/board_id"));
            board.is_none_or(|board| board != BOARD_ID)
        });
        names
    }

    /// The names of this stack's devices.
    pub(super) fn device_names(&self) -> Vec<&str> {
        self.devices.iter().map(|it| it.name.as_str()).collect()
    }

    /// The name of the device for programs to use: the first that is not the loopback, if there is one.
    pub(super) fn first_device(&self) -> Option<&str> {
        self.devices.first().map(|it| it.name.as_str())
    }
}
