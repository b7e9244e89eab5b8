//! Moves pieces through an I/O queue, with several commands outstanding.

use super::disk::Disk;
use crate::Error;
use crate::host::{Done, IoBuffer, IoQueue, Tag};
use std::collections::HashMap;
use std::ops::Range;

/// A piece of a buffer for each command, and which command uses which.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) buffer: IoBuffer,
    piece: usize,
    free: Vec<usize>,
    in_use: HashMap<Tag, (usize, u64, usize)>,
}

/// A piece whose command is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    index: usize,
    piece: usize,
    /// Where the bytes are in the namespace.
    pub(super) offset: u64,
    /// How many bytes.
    pub(super) len: usize,
}

impl Finished {
    /// Where the bytes are in the buffer.
    pub(super) fn range(&self) -> Range<usize> {
        self.index * self.piece..self.index * self.piece + self.len
    }
}

impl Pieces {
    /// Pieces for as many commands as may be outstanding.
    pub(super) fn new(queue: &IoQueue, disk: &Disk) -> Result<Self, Error> {
        let count = disk.depth.min(queue.room()).max(1);
        Ok(Self {
            buffer: queue.allocate(count * disk.block)?,
            piece: disk.block,
            free: (0..count).rev().collect(),
            in_use: HashMap::new(),
        })
    }

    /// Whether a piece is free for another command.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The place in the buffer for the `len` bytes of the next command. A piece must be free.
    pub(super) fn next(&self, len: usize) -> Range<usize> {
        let start = self.free.last().map_or(0, |index| index * self.piece);
        start..start + len
    }

    /// The command `tag` uses the piece that [`Pieces::next`] returned.
    pub(super) fn take(&mut self, tag: Tag, offset: u64, len: usize) {
        if let Some(index) = self.free.pop() {
            self.in_use.insert(tag, (index, offset, len));
        }
    }

    /// Whether a command is outstanding.
    pub(super) fn any(&self) -> bool {
        !self.in_use.is_empty()
    }

    /// The piece of a command that is over.
    pub(super) fn finish(&mut self, done: &Done) -> Option<Finished> {
        let (index, offset, len) = self.in_use.remove(&done.tag)?;
        self.free.push(index);
        Some(Finished {
            index,
            piece: self.piece,
            offset,
            len,
        })
    }
}
