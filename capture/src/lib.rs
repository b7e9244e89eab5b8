//! Captures: pcapng files of packets, with a comment for what befell each.
//!
//! A [`Capture`] is one file, in which several interfaces can have their packets. What
//! is written grows by whole packets only, and reaches the kernel at each
//! [`Capture::flush`]: a process that is killed leaves a file that can be read. When
//! the disk is full the capture ends, and says so on stderr once; nobody who captures
//! is told, because no packet may wait or fail for it.
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
mod name;
mod writer;

#[cfg(test)]
mod tests;

pub use error::CreateError;
pub use writer::{Direction, Interface, InterfaceId, LinkType, Packet};

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::Writer;

/// A capture file that is being written. Cheap to clone: clones write to the same file.
#[derive(Clone, Debug)]
pub struct Capture {
    path: Arc<Path>,
    writer: Arc<Mutex<Writer>>,
}

impl Capture {
    /// A new file. In `name`, `%p` stands for the number of this process and `%%` for %.
    ///
    /// No file is ever overwritten, be it of another process or of an earlier run: if
    /// there is one of this name, a number is put before the last dot of it (`run.pcapng`,
    /// `run-2.pcapng`, …); [`Capture::path`] tells which. A device or a pipe is opened as
    /// it is. Who opens a pipe waits for its reader.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create(name: impl AsRef<Path>) -> Result<Self, CreateError> {
        let wanted = name::expand(name.as_ref())?;
        let (file, path) = file::create_beside_others(&wanted)?;
        Self::over(file, path)
    }

    /// Whether [`Capture::create`] can understand `name`, and whether its folder is there. No
    /// file is made.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn check(name: impl AsRef<Path>) -> Result<(), CreateError> {
        let path = name::expand(name.as_ref())?;
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

    /// A file of exactly this name, in place of the one that there may be.
    ///
    /// # Errors
    /// The operating system's.
    pub fn replace(path: impl AsRef<Path>) -> Result<Self, CreateError> {
        let path = path.as_ref().to_owned();
        let file = file::replace(&path)?;
        Self::over(file, path)
    }

    fn over(file: file::Output, path: PathBuf) -> Result<Self, CreateError> {
        let writer = Writer::new(file, path.clone())?;
        Ok(Self {
            path: path.into(),
            writer: Arc::new(Mutex::new(writer)),
        })
    }

    /// The file that is written.
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

    /// Packets that are in the file.
    pub fn packets(&self) -> u64 {
        self.writer.lock().written_packets()
    }

    /// Why the capture ended early, if it did.
    pub fn failure(&self) -> Option<String> {
        self.writer.lock().failure()
    }
}
