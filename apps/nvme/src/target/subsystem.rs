//! The subsystem that a target is to offer.

use crate::wire::Nqn;
use std::path::{Path, PathBuf};

/// A subsystem: a name, and namespaces numbered from 1 on.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// Its name.
    pub name: Nqn,
    /// Its serial number, at most 20 bytes.
    pub serial: String,
    /// Its namespaces.
    pub namespaces: Vec<Backing>,
}

/// Where the bytes of a namespace are.
#[derive(Clone, Debug)]
pub struct Backing {
    pub(super) place: Place,
    pub(super) read_only: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In memory of this length.
    Memory(u64),
    /// In a file, which is created if a length is given and it does not exist.
    File(PathBuf, Option<u64>),
}

impl Subsystem {
    /// A subsystem without namespaces, whose serial number is made from its name.
    pub fn new(name: Nqn) -> Self {
        let serial = format!("{:016X}", digest(&name, 0) as u64);
        Self {
            name,
            serial,
            namespaces: Vec::new(),
        }
    }

    /// The same with one more namespace.
    #[must_use]
    pub fn with(mut self, backing: Backing) -> Self {
        self.namespaces.push(backing);
        self
    }

    /// The identifier of a namespace. It stays the same when the target is started again: hosts that
    /// reconnect expect that.
    pub(super) fn guid(&self, number: u32) -> [u8; 16] {
        digest(&self.name, number).to_be_bytes()
    }
}

impl Backing {
    /// Zeros in memory, `len` bytes. They are lost when the target ends.
    pub fn memory(len: u64) -> Self {
        let place = Place::Memory(len);
        let read_only = false;
        Self { place, read_only }
    }

    /// A file that exists, or a block device.
    pub fn file(path: impl AsRef<Path>) -> Self {
        let place = Place::File(path.as_ref().to_owned(), None);
        let read_only = false;
        Self { place, read_only }
    }

    /// A file, which is created with a length of `len` bytes if it does not exist. The length of one
    /// that exists stays as it is.
    pub fn file_or_new(path: impl AsRef<Path>, len: u64) -> Self {
        let place = Place::File(path.as_ref().to_owned(), Some(len));
        let read_only = false;
        Self { place, read_only }
    }

    /// The same, and writes are refused.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

/// FNV-1a, 128 bits, of a number and a name.
fn digest(name: &Nqn, number: u32) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = number
        .to_be_bytes()
        .into_iter()
        .chain(name.as_str().bytes());
    bytes.fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}
