//! Errors that end a queue.

use std::fmt;
use std::io;

use crate::ring::Corrupt;

/// One of the four rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingName {
    /// Chunks for frames to receive.
    Fill,
    /// Chunks that have been sent.
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

/// Why a queue is unusable.
#[non_exhaustive]
pub enum QueueError {
    /// The share of the UMEM is too small.
    Share {
        /// Number of chunks that the queue needs.
        wanted: u32,
        /// Number of chunks in the share.
        there: u32,
    },
    /// The counters of a ring are impossible.
    Corrupt {
        /// The ring.
        ring: RingName,
        /// Its counters.
        corrupt: Corrupt,
    },
    /// Waking the kernel failed permanently: the socket is unusable, for example because its
    /// interface is gone.
    Wake {
        /// The ring that the kernel was to check.
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
                    "the queue needs {wanted} chunks, but its share has {there}"
                )
            }
            Self::Corrupt { ring, corrupt } => write!(f, "{ring}: {corrupt}"),
            Self::Wake { ring, source } => write!(f, "waking the kernel for the {ring}: {source}"),
        }
    }
}

impl fmt::Debug for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
