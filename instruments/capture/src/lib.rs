//! Writes packets to pcapng files, with comments on what happened to each packet.
//!
//! A [`Capture`] is one file, or a ring of files, with packets of one or more interfaces. A file
//! grows only by complete packets, and the data reaches the kernel at each [`Capture::flush`], so a
//! process that is killed leaves a readable file. When the disk is full, or the capture reaches its
//! [limit](Limits), the capture ends with one message on stderr. The caller gets no error, because
//! a capture must never delay a packet or make it fail.
//!
//! ```no_run
//! use roce_capture::{Capture, Direction, Interface, LinkType, Packet};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let capture = Capture::create("run-%p.pcapng")?;
//! let eth0 = capture.add_interface(&Interface {
//!     name: "eth0",
//!     description: "the RoCE device roce_eth0",
//!     link_type: LinkType::RawIp,
//! });
//! capture.packet(&Packet {
//!     interface: eth0,
//!     time: std::time::SystemTime::now(),
//!     direction: Direction::Received,
//!     bytes: &[0x45, 0, 0, 20],
//!     wire_len: 4,
//!     comments: &["dropped: malformed".to_owned()],
//! });
//! capture.flush();
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod blocks;
mod error;
mod file;
mod limits;
mod name;
mod ring;
mod section;
mod writer;

#[cfg(test)]
mod tests;

pub use blocks::{Direction, Interface, InterfaceId, LinkType, Packet};
pub use error::CreateError;
pub use limits::Limits;
pub use section::Section;

use parking_lot::Mutex;
use ring::Ring;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::Writer;

/// A capture that is being written. Clones are cheap, and write to the same file.
#[derive(Clone, Debug)]
pub struct Capture {
    path: Arc<Path>,
    limits: Limits,
    writer: Arc<Mutex<Writer>>,
}

impl Capture {
    /// Creates a file of at most 1 GiB. In `name`, `%p` stands for the process ID and `%%` for `%`.
    ///
    /// Never overwrites a file. If the name is taken, a number is inserted before its last dot
    /// (`run.pcapng`, `run-2.pcapng`, …); [`Capture::path`] returns the name used. Only the file's
    /// owner may read it. A device or a pipe is opened as it is, and has no limit; opening a pipe
    /// waits for its reader. Symbolic links are not followed, except for `/dev/stdout` and the
    /// like.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(name: impl AsRef<Path>) -> Result<Self, CreateError> {
        Self::limited(name, Limits::default())
    }

    /// As [`Capture::create`], with the given limits.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn limited(name: impl AsRef<Path>, limits: Limits) -> Result<Self, CreateError> {
        let wanted = name::expand(name.as_ref())?;
        let (file, path, number) = file::create_under_free_name(&wanted, 1)?;
        let ring = Ring::new(limits, wanted, path.clone(), number);
        Self::with_file(file, path, ring)
    }

    /// As [`Capture::create`], with a setting that users write, `NAME[,limit=SIZE][,files=N]`. An
    /// example is `run-%p.pcapng,limit=100M,files=3`.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn from_setting(setting: impl AsRef<OsStr>) -> Result<Self, CreateError> {
        let (name, limits) = limits::parse(setting.as_ref())?;
        Self::limited(name, limits)
    }

    /// Checks that [`Capture::from_setting`] can parse `setting`, and that its folder exists and this user
    /// may create files there. Creates no file.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn check(setting: impl AsRef<OsStr>) -> Result<(), CreateError> {
        let (name, _) = limits::parse(setting.as_ref())?;
        let path = name::expand(&name)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        match std::fs::metadata(folder) {
            Ok(found) if found.is_dir() => file::check_creatable(&path, folder),
            Ok(_) => Err(CreateError::Io {
                path,
                source: std::io::ErrorKind::NotADirectory.into(),
            }),
            Err(source) => Err(CreateError::Io { path, source }),
        }
    }

    /// Creates a file of exactly this name, without a limit. Replaces an existing capture.
    ///
    /// # Errors
    /// If the operating system refuses, or the existing file is a symbolic link, belongs to another
    /// user, or is not a capture.
    pub fn replace(path: impl AsRef<Path>) -> Result<Self, CreateError> {
        let path = path.as_ref().to_owned();
        let file = file::replace(&path)?;
        let ring = Ring::new(Limits::NONE, path.clone(), path.clone(), 1);
        Self::with_file(file, path, ring)
    }

    fn with_file(file: file::Output, path: PathBuf, ring: Ring) -> Result<Self, CreateError> {
        // A pipe or a device has no length, so it has no limit.
        let limits = match file.len() {
            Some(_) => ring.limits(),
            None => Limits::NONE,
        };
        let writer = Writer::new(file, ring)?;
        Ok(Self {
            path: path.into(),
            limits,
            writer: Arc::new(Mutex::new(writer)),
        })
    }

    /// The limits of the capture.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The path of the first file of the capture, with the name that was used.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an interface that packets can belong to.
    pub fn add_interface(&self, interface: &Interface<'_>) -> InterfaceId {
        self.writer.lock().add_interface(interface)
    }

    /// Adds a packet. It reaches the file at the next [`Capture::flush`] at the latest.
    pub fn packet(&self, packet: &Packet<'_>) {
        self.writer.lock().packet(packet);
    }

    /// Passes the added packets to the kernel. From then on they are in the file even if this
    /// process is killed.
    pub fn flush(&self) {
        self.writer.lock().flush();
    }

    /// The number of packets written.
    pub fn packets(&self) -> u64 {
        self.writer.lock().written_packets()
    }

    /// Why the capture ended early, if it did.
    pub fn failure(&self) -> Option<String> {
        self.writer.lock().failure()
    }
}
