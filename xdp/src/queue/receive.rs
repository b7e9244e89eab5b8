//! Receiving frames.

use super::config::QueueConfig;
use super::counters::RxDrop;
use super::error::{QueueError, RingName};
use super::frame::{Frame, MAX_PIECES, Piece};
use super::{Kernel, Queue};
use crate::ring::Descriptor;
use crate::umem::{Owner, stays_in_chunk};
use std::hint::cold_path;

/// The chunks of received frames, and the frame that is still incomplete.
#[derive(Debug)]
pub(super) struct Receiving {
    /// Chunks that wait to go into the fill ring.
    free: Vec<u32>,
    /// The number of free chunks to collect before they go into the fill ring.
    kept: usize,
    pieces: [Piece; MAX_PIECES],
    count: usize,
    /// Whether a piece of the frame is missing, so that the rest is useless.
    broken: bool,
}

impl Receiving {
    /// The maximum number of free chunks to collect before they go into the fill ring. With few
    /// chunks, it is an eighth of them.
    const KEPT: u32 = 32;

    pub(super) fn new(config: &QueueConfig) -> Self {
        Self {
            free: (0..config.rx_chunks).rev().collect(),
            kept: Self::KEPT.min(config.rx_chunks / 8).max(1) as usize,
            pieces: [Piece::default(); MAX_PIECES],
            count: 0,
            broken: false,
        }
    }
}

impl<K: Kernel> Queue<K> {
    /// Delivers up to `budget` frames to `sink`. Returns the number taken from the ring, including
    /// those that were dropped; 0 if none waits. Never blocks.
    ///
    /// The chunks return to the kernel a few dozen at a time, or when no frame waits: writing to a
    /// cache line that the kernel read last takes longer than processing a short frame.
    ///
    /// # Errors
    /// If the queue is of no use any more.
    pub fn receive(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<usize, QueueError> {
        let taken = self.take(budget, sink);
        self.rx.release();
        let taken = taken?;
        let kept = self.receiving.free.len();
        let refills = kept >= self.receiving.kept || taken == 0 && kept > 0;
        if refills {
            self.refill()?;
        }
        let polls = taken == 0 && self.kernel.polls();
        if polls || self.wants_to_fill(refills) {
            self.counters.rx_wakeups += 1;
            let ring = RingName::Fill;
            self.kernel
                .wake_rx()
                .map_err(|source| QueueError::Wake { ring, source })?;
        }
        Ok(taken)
    }

    /// Whether the kernel asks for a wake-up for the fill ring. Only a caller that has just added
    /// chunks (`gave`) can miss the flag, so only it pays for a fence.
    fn wants_to_fill(&self, gave: bool) -> bool {
        if gave {
            self.fill.needs_wakeup()
        } else {
            self.fill.has_asked_for_wakeup()
        }
    }

    /// Takes frames from the ring. Returns their number.
    fn take(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<usize, QueueError> {
        let mut frames = 0;
        // Bounded even if no frame ever ends.
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
        // The kernel or the NIC has just written it.
        self.share.prefetch(address);
        let chunk = match self.ledger.take_back(address, Owner::Fill, Owner::Received) {
            Ok(chunk) => chunk,
            Err(fault) => {
                cold_path();
                return self.break_frame(fault.into());
            }
        };
        let receiving = &mut self.receiving;
        let drop = if !stays_in_chunk(address, len) {
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
        self.break_frame(drop);
    }

    /// Marks the whole frame for dropping, because a piece is missing.
    fn break_frame(&mut self, reason: RxDrop) {
        self.receiving.broken = true;
        self.counters.drop_received(reason);
    }

    /// Handles the last piece: delivers the frame unless a piece is missing.
    fn end_of_frame(&mut self, sink: &mut dyn FnMut(Frame<'_>)) {
        let count = std::mem::take(&mut self.receiving.count);
        let broken = std::mem::take(&mut self.receiving.broken);
        if !broken {
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

    /// Gives the kernel all free chunks to receive into.
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
