//! What ends a queue.

use std::fmt;
use std::io;

use crate::ring::Corrupt;

/// One of the four rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingName {
    /// Chunks for frames to come.
    Fill,
    /// Chunks that were sent.
    Completion,
    /// Received frames.
    Rx,
    /// Frames to send.
    Tx,
}

impl fmt::Display for RingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fill => "fill ring",
            Self::Completion => "completion ring",
            Self::Rx => "RX ring",
            Self::Tx => "TX ring",
        })
    }
}

/// Why a queue is of no use, or no more.
#[derive(Debug)]
pub enum QueueError {
    /// The share of the UMEM is too small.
    Share {
        /// How many chunks the queue needs.
        wanted: u32,
        /// How many the share has.
        there: u32,
    },
    /// The counters of a ring are impossible.
    Corrupt {
        /// The ring.
        ring: RingName,
        /// Its counters.
        corrupt: Corrupt,
    },
    /// The kernel does not want to be woken: the socket is of no use any more, for
    /// instance because its interface is gone.
    Wake {
        /// The ring that it was to look at.
        ring: RingName,
        /// The operating system's error.
        source: io::Error,
    },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { wanted, there } => {
                write!(
                    f,
                    "a queue that needs {wanted} chunks with a share of {there}"
                )
            }
            Self::Corrupt { ring, corrupt } => write!(f, "{ring}: {corrupt}"),
            Self::Wake { ring, source } => write!(f, "waking the kernel for the {ring}: {source}"),
        }
    }
}

impl std::error::Error for QueueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Share { .. } => None,
            Self::Corrupt { corrupt, .. } => Some(corrupt),
            Self::Wake { source, .. } => Some(source),
        }
    }
}
