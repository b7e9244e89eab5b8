//! Sending frames.

use super::config::QueueConfig;
use super::error::{QueueError, RingName};
use super::{ChecksumAt, Kernel, Queue, TxMetadata};
use crate::ring::Descriptor;
use crate::umem::{CHUNK_BYTES, Owner};
use std::hint::cold_path;

/// The slots for frames to send, of a few adjacent chunks each.
#[derive(Debug)]
pub(super) struct Transmitting {
    /// The first chunk of the first slot.
    first_chunk: u32,
    chunks_per_frame: u32,
    max_frame_bytes: usize,
    /// Bytes of headroom in front of each frame.
    headroom: usize,
    /// The free slots.
    free: Vec<u32>,
    /// For each slot, the number of chunks that the kernel still has.
    unsent: Box<[u8]>,
    /// The frame that is being written.
    reserved: Option<Held>,
    /// Whether the last `flush` left frames in the ring, for which the kernel needs another
    /// wake-up.
    blocked: bool,
}

impl Transmitting {
    pub(super) fn new(config: &QueueConfig) -> Self {
        Self {
            first_chunk: config.rx_chunks,
            chunks_per_frame: config.chunks_per_frame(),
            max_frame_bytes: config.max_frame_bytes,
            headroom: config.tx_headroom(),
            free: (0..config.tx_frames).rev().collect(),
            unsent: vec![0; config.tx_frames as usize].into(),
            reserved: None,
            blocked: false,
        }
    }

    fn chunk(&self, slot: u32) -> u32 {
        self.first_chunk + slot * self.chunks_per_frame
    }
}

/// A frame that is held back, for example because its destination's Ethernet address is not known
/// yet. It is not in the TX ring, and other frames may be sent before it. It keeps its slot until
/// it is passed to [`Queue::commit_held`] or [`Queue::drop_held`].
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    slot: u32,
    len: usize,
    /// Whether the frame has metadata in front.
    has_metadata: bool,
}

/// Why space for a frame could not be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// All slots are in use. Flush, or retry when the kernel has sent some frames.
    Full,
    /// The length is 0 or too long, or the frame can't have the requested checksum.
    Length,
}

impl<K: Kernel> Queue<K> {
    /// Reserves space for a frame of exactly `len` bytes, whose contents are arbitrary. The next
    /// call drops a frame that is not committed.
    ///
    /// # Errors
    /// See [`NoRoom`].
    pub fn reserve(&mut self, len: usize) -> Result<&mut [u8], NoRoom> {
        self.reserve_with(len, None)
    }

    /// As [`Queue::reserve`], for a frame whose checksum the driver or the kernel fills in.
    ///
    /// # Errors
    /// As [`Queue::reserve`]. Also [`NoRoom::Length`] if there is no space for metadata
    /// ([`QueueConfig::has_metadata`]), or the checksum is not within the frame.
    pub fn reserve_with(
        &mut self,
        len: usize,
        checksum: Option<ChecksumAt>,
    ) -> Result<&mut [u8], NoRoom> {
        self.drop_reserved();
        let headroom = self.transmitting.headroom;
        if checksum.is_some_and(|checksum| headroom == 0 || !checksum.is_in(len)) {
            cold_path();
            return Err(NoRoom::Length);
        }
        if !(1..=self.transmitting.max_frame_bytes).contains(&len) {
            cold_path();
            return Err(NoRoom::Length);
        }
        if self.transmitting.free.is_empty() {
            cold_path();
            // The next `flush` reports an error of the ring.
            let _ = self.take_completions();
        }
        let Some(slot) = self.transmitting.free.pop() else {
            cold_path();
            self.counters.tx_full += 1;
            return Err(NoRoom::Full);
        };
        let first = self.transmitting.chunk(slot);
        for chunk in chunks(first, len) {
            self.ledger.pass(chunk, Owner::Writing);
        }
        self.transmitting.reserved = Some(Held {
            slot,
            len,
            has_metadata: checksum.is_some(),
        });
        let address = self.ledger.address(first);
        let space = self.share.bytes_mut(address, headroom + len);
        let (metadata, frame) = space.ok_or(NoRoom::Length)?.split_at_mut(headroom);
        if let (Some(checksum), Some(metadata)) = (checksum, metadata.first_chunk_mut()) {
            cold_path();
            *metadata = TxMetadata { checksum }.to_bytes();
        }
        Ok(frame)
    }

    /// The frame that is being written, if there is one.
    pub fn reserved(&mut self) -> Option<&mut [u8]> {
        let transmitting = &self.transmitting;
        let &Held { slot, len, .. } = transmitting.reserved.as_ref()?;
        let address = self.ledger.address(transmitting.chunk(slot));
        self.share
            .bytes_mut(address + transmitting.headroom as u64, len)
    }

    /// Queues the frame that is being written, if there is one. [`Queue::flush`] sends it.
    ///
    /// # Errors
    /// If the queue is unusable.
    #[inline(always)]
    pub fn commit(&mut self) -> Result<(), QueueError> {
        let Some(&Held {
            slot,
            len,
            has_metadata,
        }) = self.transmitting.reserved.as_ref()
        else {
            return Ok(());
        };
        let first = self.transmitting.chunk(slot);
        let pieces = chunks(first, len).len();
        let space = self.tx.room(pieces as u32).map_err(corrupt(RingName::Tx))?;
        if (space as usize) < pieces {
            cold_path();
            self.counters.tx_ring_full += 1;
            self.drop_reserved();
            return Ok(());
        }
        self.transmitting.reserved = None;
        self.transmitting.unsent[slot as usize] = pieces as u8;
        // Only frames of one piece have headroom.
        let headroom = self.transmitting.headroom as u64;
        let metadata = if has_metadata {
            Descriptor::METADATA
        } else {
            0
        };
        let mut left = len;
        for chunk in first..first + pieces as u32 {
            let piece = left.min(CHUNK_BYTES);
            left -= piece;
            let descriptor = Descriptor {
                address: self.ledger.address(chunk) + headroom,
                len: piece as u32,
                options: metadata | if left > 0 { Descriptor::CONTINUED } else { 0 },
            };
            self.tx.push(descriptor).map_err(corrupt(RingName::Tx))?;
            self.ledger.pass(chunk, Owner::Tx);
        }
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += len as u64;
        self.counters.tx_checksums += u64::from(has_metadata);
        Ok(())
    }

    /// Holds back the frame that is being written, if there is one.
    pub fn hold(&mut self) -> Option<Held> {
        self.transmitting.reserved.take()
    }

    /// Queues a held frame, after `change` has completed it.
    ///
    /// # Errors
    /// If the queue is unusable.
    pub fn commit_held(
        &mut self,
        held: Held,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), QueueError> {
        self.drop_reserved();
        self.transmitting.reserved = Some(held);
        if let Some(frame) = self.reserved() {
            change(frame);
        }
        self.commit()
    }

    /// Drops a held frame.
    pub fn drop_held(&mut self, held: Held) {
        self.drop_reserved();
        self.free_slot(held.slot, held.len);
    }

    /// Sends committed frames until the kernel accepts no more. Never blocks. Returns `false` if
    /// another call is needed to send the rest.
    ///
    /// # Errors
    /// If the queue is unusable.
    pub fn flush(&mut self) -> Result<bool, QueueError> {
        let untaken = self.send()?;
        self.take_completions()?;
        self.transmitting.blocked = untaken > 0 && self.tx.needs_wakeup();
        Ok(!self.transmitting.blocked)
    }

    /// Sends committed frames until the kernel accepts no more. This is the first part of
    /// [`Queue::flush`], for an urgent frame. Returns the number of pieces that the kernel has not
    /// taken.
    ///
    /// # Errors
    /// If the queue is unusable.
    pub fn send(&mut self) -> Result<u32, QueueError> {
        self.tx.submit();
        let mut untaken = self.tx.untaken().map_err(corrupt(RingName::Tx))?;
        // In copy mode, one call may send only a few dozen pieces.
        while untaken > 0 && self.tx.needs_wakeup() {
            self.counters.tx_wakeups += 1;
            let ring = RingName::Tx;
            self.kernel
                .wake_tx()
                .map_err(|source| QueueError::Wake { ring, source })?;
            let before = untaken;
            untaken = self.tx.untaken().map_err(corrupt(RingName::Tx))?;
            if untaken >= before {
                break;
            }
        }
        Ok(untaken)
    }

    /// Number of frames that are committed but not reported as sent, plus those that are held.
    pub fn unsent(&self) -> usize {
        let reserved = usize::from(self.transmitting.reserved.is_some());
        self.transmitting.unsent.len() - self.transmitting.free.len() - reserved
    }

    /// Whether committed frames need another [`Queue::flush`] to be sent.
    pub fn has_queued(&self) -> bool {
        self.transmitting.blocked
    }

    /// Takes back the chunks that have been sent.
    fn take_completions(&mut self) -> Result<(), QueueError> {
        // The loop is bounded even if the kernel never stops completing.
        for _ in 0..self.ledger.counts().of(Owner::Tx).saturating_add(1) {
            let popped = self
                .completion
                .pop()
                .map_err(corrupt(RingName::Completion))?;
            let Some(address) = popped else { break };
            match self.ledger.take_back(address, Owner::Tx, Owner::Free) {
                Ok(chunk) => self.mark_sent(chunk),
                Err(_) => {
                    cold_path();
                    self.counters.tx_bad_completions += 1;
                }
            }
        }
        self.completion.release();
        Ok(())
    }

    /// Marks a chunk as sent. Its slot is free when all its chunks are sent.
    fn mark_sent(&mut self, chunk: u32) {
        let transmitting = &mut self.transmitting;
        let slot = (chunk - transmitting.first_chunk) / transmitting.chunks_per_frame;
        let unsent = &mut transmitting.unsent[slot as usize];
        *unsent -= 1;
        if *unsent == 0 {
            transmitting.free.push(slot);
        }
        self.counters.tx_completed += 1;
    }

    /// Drops the frame that is being written, if there is one.
    #[inline]
    fn drop_reserved(&mut self) {
        if let Some(Held { slot, len, .. }) = self.transmitting.reserved.take() {
            cold_path();
            self.free_slot(slot, len);
        }
    }

    /// Frees the slot of a frame that will not be sent.
    fn free_slot(&mut self, slot: u32, len: usize) {
        for chunk in chunks(self.transmitting.chunk(slot), len) {
            self.ledger.pass(chunk, Owner::Free);
        }
        self.transmitting.free.push(slot);
    }
}

/// The chunks that a frame of `len` bytes needs from `first` on.
fn chunks(first: u32, len: usize) -> std::ops::Range<u32> {
    first..first + len.div_ceil(CHUNK_BYTES) as u32
}

fn corrupt(ring: RingName) -> impl Fn(crate::ring::Corrupt) -> QueueError {
    move |corrupt| QueueError::Corrupt { ring, corrupt }
}
