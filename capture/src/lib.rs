//! Captures: pcapng files of packets, with a comment for what befell each.
//!
//! A [`Capture`] is one file, in which several interfaces can have their packets. What
//! is written grows by whole packets only, and reaches the kernel at each
//! [`Capture::flush`]: a process that is killed leaves a file that can be read. When
//! the disk is full, or the capture has come to its [limit](Limits), it ends and says so on
//! stderr once; nobody who captures is told, because no packet may wait or fail for it.
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

mod error;
mod file;
mod limits;
mod name;
mod ring;
mod writer;

#[cfg(test)]
mod tests;

pub use error::CreateError;
pub use limits::Limits;
pub use writer::{Direction, Interface, InterfaceId, LinkType, Packet};

use parking_lot::Mutex;
use ring::Ring;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::Writer;

/// A capture file that is being written. Cheap to clone: clones write to the same file.
#[derive(Clone, Debug)]
pub struct Capture {
    path: Arc<Path>,
    limits: Limits,
    writer: Arc<Mutex<Writer>>,
}

impl Capture {
    /// A new file, of 1 GiB at most. In `name`, `%p` stands for the number of this process and
    /// `%%` for %.
    ///
    /// No file is ever overwritten, be it of another process or of an earlier run: if
    /// there is one of this name, a number is put before the last dot of it (`run.pcapng`,
    /// `run-2.pcapng`, …); [`Capture::path`] tells which. Only its owner may read it. A device or a
    /// pipe is opened as it is, and has no limit. Who opens a pipe waits for its reader. Symbolic
    /// links are not followed, but for `/dev/stdout` and its like.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(name: impl AsRef<Path>) -> Result<Self, CreateError> {
        Self::limited(name, Limits::default())
    }

    /// As [`Capture::create`], with other limits.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn limited(name: impl AsRef<Path>, limits: Limits) -> Result<Self, CreateError> {
        let wanted = name::expand(name.as_ref())?;
        let (file, path, number) = file::create_beside_others(&wanted, 1)?;
        let ring = Ring::new(limits, wanted, path.clone(), number);
        Self::over(file, path, ring)
    }

    /// As [`Capture::create`], with what users write: `NAME[,limit=SIZE][,files=N]`, as in
    /// `run-%p.pcapng,limit=100M,files=3`.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn from_setting(setting: impl AsRef<OsStr>) -> Result<Self, CreateError> {
        let (name, limits) = limits::parse(setting.as_ref())?;
        Self::limited(name, limits)
    }

    /// Whether [`Capture::from_setting`] can understand a setting, and whether its folder is there.
    /// No file is made.
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
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(CreateError::Io {
                path,
                source: std::io::ErrorKind::NotADirectory.into(),
            }),
            Err(source) => Err(CreateError::Io { path, source }),
        }
    }

    /// A file of exactly this name, without a limit, in place of the capture that there may be.
    ///
    /// # Errors
    /// The operating system's, or that what is there is a symbolic link, belongs to another user,
    /// or is no capture.
    pub fn replace(path: impl AsRef<Path>) -> Result<Self, CreateError> {
        let path = path.as_ref().to_owned();
        let file = file::replace(&path)?;
        let ring = Ring::new(Limits::NONE, path.clone(), path.clone(), 1);
        Self::over(file, path, ring)
    }

    fn over(file: file::Output, path: PathBuf, ring: Ring) -> Result<Self, CreateError> {
        // What can't be counted has no limit.
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

    /// How much is written at most.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The file that is written: of several, the first.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One more interface that packets are of.
    pub fn add_interface(&self, interface: &Interface<'_>) -> InterfaceId {
        self.writer.lock().add_interface(interface)
    }

    /// Adds a packet. It is in the file at the next [`Capture::flush`], if not before.
    pub fn packet(&self, packet: &Packet<'_>) {
        self.writer.lock().packet(packet);
    }

    /// Hands what was added to the kernel: from then on it is in the file whatever
    /// becomes of this process.
    pub fn flush(&self) {
        self.writer.lock().flush();
    }

    /// Packets that were written.
    pub fn packets(&self) -> u64 {
        self.writer.lock().written_packets()
    }

    /// Why the capture ended early, if it did.
    pub fn failure(&self) -> Option<String> {
        self.writer.lock().failure()
    }
}
