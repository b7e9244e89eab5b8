//! Receiving frames.

use super::config::QueueConfig;
use super::counters::RxDrop;
use super::error::{QueueError, RingName};
use super::frame::{Frame, MAX_PIECES, Piece};
use super::{Kernel, Queue};
use crate::ring::Descriptor;
use crate::umem::{Owner, is_in_one_chunk};
use std::hint::cold_path;

/// The chunks of received frames, and the frame that is still incomplete.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Free chunks that are not in the fill ring yet.
    free: Vec<u32>,
    /// The number of free chunks at which they go into the fill ring.
    refill_threshold: usize,
    pieces: [Piece; MAX_PIECES],
    count: usize,
    /// Whether a piece of the frame is missing, so that the frame must be dropped.
    is_incomplete: bool,
}

impl Receiving {
    /// The maximum of `refill_threshold`. With few chunks, the threshold is an eighth of them.
    const MAX_REFILL_THRESHOLD: u32 = 32;

    pub(super) fn new(config: &QueueConfig) -> Self {
        Self {
            free: (0..config.rx_chunks).rev().collect(),
            refill_threshold: Self::MAX_REFILL_THRESHOLD.min(config.rx_chunks / 8).max(1) as usize,
            pieces: [Piece::default(); MAX_PIECES],
            count: 0,
            is_incomplete: false,
        }
    }
}

impl<K: Kernel> Queue<K> {
    /// Delivers up to `budget` frames to `sink`. Returns the number of frames taken from the ring,
    /// including dropped ones; 0 if no frame waits. Never blocks.
    ///
    /// The chunks return to the kernel a few dozen at a time, or when no frame waits, because
    /// writing to a cache line that the kernel has read takes longer than processing a short frame.
    ///
    /// # Errors
    /// If the queue is unusable.
    pub fn receive(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<usize, QueueError> {
        let taken = self.take_frames(budget, sink);
        self.rx.release();
        let taken = taken?;
        let free = self.receiving.free.len();
        let refills = free >= self.receiving.refill_threshold || taken == 0 && free > 0;
        if refills {
            self.refill()?;
        }
        let polls = taken == 0 && self.kernel.polls();
        if polls || self.fill_needs_wakeup(refills) {
            self.counters.rx_wakeups += 1;
            let ring = RingName::Fill;
            self.kernel
                .wake_rx()
                .map_err(|source| QueueError::Wake { ring, source })?;
        }
        Ok(taken)
    }

    /// Whether the kernel asks for a wake-up for the fill ring. Only a caller that has just added
    /// chunks (`has_added`) can miss the flag, so only it pays for a fence.
    fn fill_needs_wakeup(&self, has_added: bool) -> bool {
        if has_added {
            self.fill.needs_wakeup()
        } else {
            self.fill.has_asked_for_wakeup()
        }
    }

    /// Takes up to `budget` frames from the ring. Returns their number.
    fn take_frames(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<usize, QueueError> {
        let mut frames = 0;
        // The loop is bounded even if no frame ever ends.
        for _ in 0..budget.saturating_mul(MAX_PIECES) {
            let popped = self.rx.pop().map_err(|corrupt| QueueError::Corrupt {
                ring: RingName::Rx,
                corrupt,
            })?;
            let Some(descriptor) = popped else {
                break;
            };
            self.add_piece(descriptor);
            if !descriptor.is_continued() {
                self.end_of_frame(sink);
                frames += 1;
            }
            if frames == budget {
                break;
            }
        }
        Ok(frames)
    }

    /// Takes a chunk back from the kernel, as a piece of the current frame.
    fn add_piece(&mut self, descriptor: Descriptor) {
        let Descriptor { address, len, .. } = descriptor;
        // The kernel or the NIC has just written the piece.
        self.share.prefetch(address);
        let chunk = match self.ledger.take_back(address, Owner::Fill, Owner::Received) {
            Ok(chunk) => chunk,
            Err(fault) => {
                cold_path();
                return self.mark_incomplete(fault.into());
            }
        };
        let receiving = &mut self.receiving;
        let drop = if !is_in_one_chunk(address, len) {
            RxDrop::PieceTooLong
        } else if receiving.count == MAX_PIECES {
            RxDrop::TooManyPieces
        } else {
            receiving.pieces[receiving.count] = Piece {
                address,
                len,
                chunk,
            };
            receiving.count += 1;
            return;
        };
        cold_path();
        self.recycle(chunk);
        self.mark_incomplete(drop);
    }

    /// Marks the whole frame for dropping, because a piece is missing.
    fn mark_incomplete(&mut self, reason: RxDrop) {
        self.receiving.is_incomplete = true;
        self.counters.drop_received(reason);
    }

    /// Handles the last piece: delivers the frame unless a piece is missing.
    fn end_of_frame(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        let count = std::mem::take(&mut self.receiving.count);
        let is_incomplete = std::mem::take(&mut self.receiving.is_incomplete);
        if !is_incomplete {
            let frame = Frame {
                share: &self.share,
                pieces: &self.receiving.pieces[..count],
            };
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            self.counters.rx_in_pieces += u64::from(count > 1);
            sink(frame);
        }
        for piece in 0..count {
            self.recycle(self.receiving.pieces[piece].chunk);
        }
    }

    fn recycle(&mut self, chunk: u32) {
        self.ledger.pass(chunk, Owner::Free);
        self.receiving.free.push(chunk);
    }

    /// Puts all free chunks into the fill ring.
    pub(super) fn refill(&mut self) -> Result<(), QueueError> {
        let corrupt = |corrupt| QueueError::Corrupt {
            ring: RingName::Fill,
            corrupt,
        };
        while let Some(&chunk) = self.receiving.free.last() {
            if !self
                .fill
                .push(self.ledger.address(chunk))
                .map_err(corrupt)?
            {
                break;
            }
            self.receiving.free.pop();
            self.ledger.pass(chunk, Owner::Fill);
        }
        self.fill.submit();
        Ok(())
    }
}
