//! A received frame.

use crate::umem::Share;

/// The maximum number of pieces of a frame. It is the kernel's own limit: a first part and 17
/// fragments.
pub const MAX_PIECES: usize = 18;

/// The position of a piece of a frame, checked to be within one chunk of the share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) chunk: u32,
}

/// A received frame: one piece, or several in order.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(super) share: &'a Share,
    pub(super) pieces: &'a [Piece],
}

impl<'a> Frame<'a> {
    /// The length of the frame in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self.pieces {
            [piece] => piece.len as usize,
            pieces => pieces.iter().map(|piece| piece.len as usize).sum(),
        }
    }

    /// Whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces of the frame; at least one.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let share = self.share;
        // The queue has checked that each piece is within its chunk and each chunk within the
        // share.
        self.pieces.iter().map(|piece| {
            share
                .bytes(piece.address, piece.len as usize)
                .unwrap_or_default()
        })
    }

    /// All bytes, if the frame has a single piece.
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        if self.pieces.len() == 1 {
            self.pieces().next()
        } else {
            None
        }
    }

    /// Copies as many bytes of the frame to `to` as fit. Returns the part of `to` that was written.
    pub fn copy_to<'b>(&self, to: &'b mut [u8]) -> &'b mut [u8] {
        let mut at = 0;
        for piece in self.pieces() {
            let len = piece.len().min(to.len() - at);
            to[at..at + len].copy_from_slice(&piece[..len]);
            at += len;
        }
        &mut to[..at]
    }
}
