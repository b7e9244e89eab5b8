//! The actions that a session asks for.

use crate::wire::{KeyedSgl, Status};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The action that a session asks for with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The identifier of the command, which the response repeats.
    pub command: u16,
    /// The key that the response invalidates at the host.
    pub invalidate: Option<u32>,
    /// The action.
    pub action: Action,
}

/// The treatment of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer it.
    Answer(Answer),
    /// Write the bytes to the host's memory, which has the same length, and answer "success".
    Return {
        /// The bytes.
        bytes: Vec<u8>,
        /// The host's memory.
        to: KeyedSgl,
    },
    /// Read the host's memory, and hand the bytes to [`Session::fetched`](super::Session::fetched).
    Fetch(KeyedSgl),
    /// Read from a namespace into the host's memory, which has the same length, and answer.
    Read {
        /// The bytes of the namespace.
        extent: Extent,
        /// The host's memory.
        to: KeyedSgl,
    },
    /// Write to a namespace, and answer.
    Write {
        /// The bytes of the namespace.
        extent: Extent,
        /// The data, of the same length.
        data: Data,
        /// Whether the bytes must be durable before the answer.
        durable: bool,
    },
    /// Make all answered writes to the namespaces with these indices durable, and answer.
    Flush(Range<usize>),
    /// Nothing. The command is never answered, and its capsule may be used again.
    Hold,
}

/// Bytes of a namespace that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The namespace's index: its number minus 1.
    pub namespace: usize,
    /// The first byte.
    pub offset: u64,
    /// Length in bytes, not 0.
    pub len: u32,
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// These bytes of the capsule.
    InCapsule(Range<usize>),
    /// The host's memory.
    AtHost(KeyedSgl),
}

/// The answer to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The command's result.
    pub result: u64,
    /// Its status.
    pub status: Status,
}

impl Answer {
    /// "Success", with a result.
    pub fn success(result: u64) -> Self {
        let status = Status::SUCCESS;
        Self { result, status }
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Self { result: 0, status }
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A capsule has this length, and no command fits in it.
    ShortCapsule(usize),
    /// The controller has gone: its admin queue has ended.
    NoController,
    /// The host has been silent for longer than this.
    Silent(Duration),
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortCapsule(len) => {
                write!(f, "a capsule has {len} bytes: a command has 64")
            }
            Self::NoController => f.write_str("the controller's admin queue has ended"),
            Self::Silent(limit) => write!(f, "the host has been silent for more than {limit:?}"),
        }
    }
}
