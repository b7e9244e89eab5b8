//! Test doubles for the kernel: rings in ordinary memory. The test acts as the kernel at the other
//! end of the rings, and may follow the protocol or break it.

mod script;

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use script::run_script;

use crate::queue::{Kernel, Queue, QueueConfig, QueueError, RingName, Rings};
use crate::ring::{Consumer, Descriptor, HeapRing, Producer, RingMemory};
use crate::umem::Umem;

type Descriptors = Arc<HeapRing<Descriptor>>;
type Addresses = Arc<HeapRing<u64>>;

/// A [`Kernel`] that counts wake-ups, and can make them fail.
#[derive(Clone, Debug, Default)]
pub struct DoubleKernel {
    tx_wakes: Rc<Cell<u32>>,
    rx_wakes: Rc<Cell<u32>>,
    error: Rc<Cell<Option<i32>>>,
    /// The ring to take entries from at each wake-up, and the maximum number of entries.
    takes: Option<(Descriptors, u32)>,
}

impl DoubleKernel {
    /// The number of wake-ups for the TX ring.
    pub fn tx_wakes(&self) -> u32 {
        self.tx_wakes.get()
    }

    /// The number of wake-ups for the fill ring.
    pub fn rx_wakes(&self) -> u32 {
        self.rx_wakes.get()
    }

    /// Makes every wake-up from now on fail with this OS error.
    pub fn fail(&self, error: i32) {
        self.error.set(Some(error));
    }

    fn count_wakeup(&self, count: &Cell<u32>) -> io::Result<()> {
        count.set(count.get() + 1);
        self.error
            .get()
            .map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
    }
}

impl Kernel for DoubleKernel {
    type Descriptors = Descriptors;
    type Addresses = Addresses;

    fn wake_tx(&self) -> io::Result<()> {
        if let Some((ring, max)) = &self.takes {
            let (end, at) = (
                ring.producer().load(Ordering::Acquire),
                ring.consumer().load(Ordering::Relaxed),
            );
            let taken = end.wrapping_sub(at).min(*max);
            ring.consumer()
                .store(at.wrapping_add(taken), Ordering::Release);
        }
        self.count_wakeup(&self.tx_wakes)
    }

    fn wake_rx(&self) -> io::Result<()> {
        self.count_wakeup(&self.rx_wakes)
    }

    fn polls(&self) -> bool {
        false
    }
}

/// The kernel's ends of four rings.
#[derive(Debug)]
pub struct KernelSide {
    /// The rings themselves, for writing corrupt values.
    pub rings: Rings<Descriptors, Addresses>,
    /// The fill ring: chunks that the kernel may put received frames into.
    pub fill: Consumer<Addresses>,
    /// Chunks that have been sent.
    pub completion: Producer<Addresses>,
    /// Pieces of received frames.
    pub rx: Producer<Descriptors>,
    /// Pieces of frames to send.
    pub tx: Consumer<Descriptors>,
}

impl KernelSide {
    /// Takes the next chunk to put a frame into.
    pub fn take_fill(&mut self) -> Option<u64> {
        let taken = self.fill.pop().ok().flatten();
        self.fill.release();
        taken
    }

    /// Delivers a piece of a frame.
    pub fn deliver(&mut self, address: u64, len: u32, options: u32) {
        let _ = self.rx.push(Descriptor {
            address,
            len,
            options,
        });
        self.rx.submit();
    }

    /// Takes the next piece of a frame to send.
    pub fn take_tx(&mut self) -> Option<Descriptor> {
        let taken = self.tx.pop().ok().flatten();
        self.tx.release();
        taken
    }

    /// Reports a chunk as sent.
    pub fn complete(&mut self, address: u64) {
        let _ = self.completion.push(address);
        self.completion.submit();
    }

    /// Sets or clears the flag that requests wake-ups.
    pub fn want_wakeup(&self, wanted: bool) {
        let flag = if wanted {
            libc::XDP_RING_NEED_WAKEUP
        } else {
            0
        };
        self.rings.tx.flags().store(flag, Ordering::Relaxed);
        self.rings.fill.flags().store(flag, Ordering::Relaxed);
    }
}

/// A queue and the kernel's end of it. The queue's memory does not begin at address 0, so some
/// valid addresses are outside of it.
///
/// At each wake-up for the TX ring, the double removes up to `takes` entries from the ring, as if
/// the kernel had sent them. With `None`, the test takes the entries with [`KernelSide::take_tx`].
///
/// # Errors
/// As [`Queue::new`].
pub fn queue(
    config: &QueueConfig,
    takes: Option<u32>,
) -> Result<(Queue<DoubleKernel>, KernelSide), QueueError> {
    // Start the counters so that they wrap after a few entries.
    let start = u32::MAX - 2;
    let rings = Rings {
        fill: Arc::new(HeapRing::new(config.rx_chunks, start)),
        completion: Arc::new(HeapRing::new(config.tx_chunks(), start)),
        rx: Arc::new(HeapRing::new(config.rx_chunks, start)),
        tx: Arc::new(HeapRing::new(config.tx_chunks(), start)),
    };
    let shared = || Rings {
        fill: Arc::clone(&rings.fill),
        completion: Arc::clone(&rings.completion),
        rx: Arc::clone(&rings.rx),
        tx: Arc::clone(&rings.tx),
    };
    let (a, b) = (shared(), shared());
    let corrupt = |ring| move |corrupt| QueueError::Corrupt { ring, corrupt };
    let side = KernelSide {
        fill: Consumer::new(a.fill).map_err(corrupt(RingName::Fill))?,
        completion: Producer::new(a.completion).map_err(corrupt(RingName::Completion))?,
        rx: Producer::new(a.rx).map_err(corrupt(RingName::Rx))?,
        tx: Consumer::new(a.tx).map_err(corrupt(RingName::Tx))?,
        rings: shared(),
    };
    let kernel = DoubleKernel {
        takes: takes.map(|max| (Arc::clone(&rings.tx), max)),
        ..DoubleKernel::default()
    };
    let too_small = QueueError::Share {
        wanted: config.chunks(),
        there: 0,
    };
    let umem = Umem::new(config.chunks() + 2).and_then(|umem| umem.cut(&[1, config.chunks(), 1]));
    let Some(queue_share) = umem.ok().and_then(|shares| shares.into_iter().nth(1)) else {
        return Err(too_small);
    };
    Ok((Queue::new(kernel, b, queue_share, config)?, side))
}
