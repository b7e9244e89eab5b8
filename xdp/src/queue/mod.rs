//! One queue of an interface: a socket's four rings and a share of the UMEM.
//!
//! A frame has one piece or several, because a chunk is smaller than a frame of path MTU 4096. A
//! frame to send is still contiguous: its slot has several adjacent chunks, and only its
//! descriptors are split at the chunk borders.
//!
//! After [`Queue::new`], the queue allocates nothing, and all its resources are bounded. Chunks of
//! received frames are free again before [`Queue::receive`] returns. There are slots for
//! [`QueueConfig::tx_frames`] frames to send.
//!
//! The queue checks the addresses that the kernel returns against the [`Ledger`]. If the kernel
//! does not have the chunk at the moment, or a piece exceeds its chunk, the queue drops the frame,
//! counts it in [`QueueCounters`], and does not access its memory. Impossible counters of a ring
//! are a [`QueueError`], after which the queue is unusable.

mod config;
mod counters;
mod error;
mod frame;
mod metadata;
mod receive;
mod transmit;

use std::io;

pub use config::QueueConfig;
pub use counters::{QueueCounters, RxDrop};
pub use error::{QueueError, RingName};
pub use frame::{Frame, MAX_PIECES};
pub use metadata::{ChecksumAt, TxMetadata};
pub use transmit::{Held, NoRoom};

use crate::ring::{Consumer, Corrupt, Descriptor, Producer, RingMemory};
use crate::umem::{ChunkCounts, Ledger, Share};
use receive::Receiving;
use transmit::Transmitting;

/// The calls to the kernel that a queue needs in addition to its rings.
pub trait Kernel {
    /// Rings of descriptors.
    type Descriptors: RingMemory<Entry = Descriptor>;
    /// Rings of addresses.
    type Addresses: RingMemory<Entry = u64>;

    /// Makes the kernel check the TX ring.
    ///
    /// # Errors
    /// If the socket is unusable. It is not an error if the kernel is busy or lacks memory at the
    /// moment, or the link is down.
    fn wake_tx(&self) -> io::Result<()>;

    /// Makes the kernel check the fill ring and receive frames.
    ///
    /// # Errors
    /// As [`Kernel::wake_tx`].
    fn wake_rx(&self) -> io::Result<()>;

    /// Whether frames arrive only when the kernel is polled (busy-polling).
    fn polls(&self) -> bool;
}

/// The four rings of a socket.
#[derive(Debug)]
pub struct Rings<D, A> {
    /// Chunks for the kernel to put frames into.
    pub fill: A,
    /// Chunks that have been sent.
    pub completion: A,
    /// Pieces of received frames.
    pub rx: D,
    /// Pieces of frames to send.
    pub tx: D,
}

/// One queue of an interface. See the module's documentation.
#[derive(Debug)]
pub struct Queue<K: Kernel> {
    kernel: K,
    fill: Producer<K::Addresses>,
    completion: Consumer<K::Addresses>,
    rx: Consumer<K::Descriptors>,
    tx: Producer<K::Descriptors>,
    share: Share,
    ledger: Ledger,
    receiving: Receiving,
    transmitting: Transmitting,
    counters: QueueCounters,
}

impl<K: Kernel> Queue<K> {
    /// A queue over rings that are not in use yet. Fills the fill ring, because some drivers
    /// require that before the socket is bound.
    ///
    /// # Errors
    /// If the share has fewer than [`QueueConfig::chunks`] chunks, or the kernel's counters are
    /// impossible.
    pub fn new(
        kernel: K,
        rings: Rings<K::Descriptors, K::Addresses>,
        share: Share,
        config: &QueueConfig,
    ) -> Result<Self, QueueError> {
        if share.chunks() < config.chunks() {
            return Err(QueueError::Share {
                wanted: config.chunks(),
                there: share.chunks(),
            });
        }
        let name = |ring| move |corrupt: Corrupt| QueueError::Corrupt { ring, corrupt };
        let mut queue = Self {
            kernel,
            fill: Producer::new(rings.fill).map_err(name(RingName::Fill))?,
            completion: Consumer::new(rings.completion).map_err(name(RingName::Completion))?,
            rx: Consumer::new(rings.rx).map_err(name(RingName::Rx))?,
            tx: Producer::new(rings.tx).map_err(name(RingName::Tx))?,
            ledger: Ledger::new(share.addresses()),
            receiving: Receiving::new(config),
            transmitting: Transmitting::new(config),
            counters: QueueCounters::default(),
            share,
        };
        queue.refill()?;
        Ok(queue)
    }

    /// Counters of frames received, sent and dropped so far.
    pub fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// The number of the queue's chunks that each owner has. Between calls, no chunks are
    /// `Received`, apart from the first pieces of a frame whose last piece has not arrived.
    pub fn chunks(&self) -> ChunkCounts {
        self.ledger.counts()
    }

    /// The queue's interface to the kernel.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    pub(crate) fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }
}

#[cfg(test)]
mod tests;
