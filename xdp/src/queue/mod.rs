//! One queue of an interface: a socket's four rings and a share of the UMEM.
//!
//! A frame is one piece or several, since a chunk holds less than path MTU 4096 needs. Sent
//! frames are contiguous even so: each has room of several chunks that lie beside each
//! other, and only its descriptors are cut at their borders.
//!
//! Nothing is allocated after [`Queue::new`], and everything is bounded: received
//! chunks go back to the fill ring before [`Queue::receive`] returns, and there is room
//! for [`QueueConfig::tx_frames`] frames to be sent.
//!
//! What the kernel names is checked against the [`Ledger`]: a chunk that it doesn't have at
//! the moment, or a piece that would leave its chunk, costs the frame, and is counted in
//! [`QueueCounters`]; nothing is read or written for it. Impossible counters of a ring
//! are a [`QueueError`], after which the queue is of no use.

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

/// What a queue needs of the kernel besides its rings.
pub trait Kernel {
    /// Rings of descriptors.
    type Descriptors: RingMemory<Entry = Descriptor>;
    /// Rings of addresses.
    type Addresses: RingMemory<Entry = u64>;

    /// Has the kernel look at the ring of frames to send.
    ///
    /// # Errors
    /// If the socket is of no use any more. That the kernel is busy, that it has no room at
    /// the moment or that the link is down is no error.
    fn wake_tx(&self) -> io::Result<()>;

    /// Has the kernel look at the fill ring, and for frames that arrived.
    ///
    /// # Errors
    /// As [`Kernel::wake_tx`].
    fn wake_rx(&self) -> io::Result<()>;

    /// Whether frames arrive only when the kernel is asked for them (busy-polling).
    fn polls(&self) -> bool;
}

/// The four rings of a socket.
#[derive(Debug)]
pub struct Rings<D, A> {
    /// Chunks that the kernel may put frames into.
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
    /// A queue over rings that are not in use yet; the fill ring is filled at once, which
    /// some drivers want before the socket is bound.
    ///
    /// # Errors
    /// If the share has not [`QueueConfig::chunks`] chunks, or the kernel's counters are
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

    /// What was done and dropped so far.
    pub fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Who has how many of the queue's chunks. Between calls, nobody is reading received
    /// ones, apart from the first pieces of a frame whose last has not come.
    pub fn chunks(&self) -> ChunkCounts {
        self.ledger.counts()
    }

    /// What the queue needs of the kernel.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    pub(crate) fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }
}

#[cfg(test)]
mod tests;
