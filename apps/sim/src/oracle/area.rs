//! A range of memory, with the values that each of its bytes may have.

use super::{Verdict, violated};
use core::ops::Range;
use roce_stack::Buffer;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes with shared ownership.
pub type Bytes = Rc<[u8]>;

/// A buffer with the model of its contents. Each byte must equal the image's, or one that an
/// operation in progress may have written.
#[derive(Debug)]
pub struct Area {
    buffer: Arc<Buffer>,
    image: Vec<u8>,
    pending: Vec<PendingOp>,
    /// Whether nothing may access the area any more.
    frozen: bool,
}

/// An operation that may have been executed completely, partly, or not at all.
#[derive(Clone, Debug)]
pub(super) struct PendingOp {
    pub(super) id: usize,
    pub(super) at: usize,
    pub(super) bytes: Content,
}

/// The bytes that an operation writes.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Known(Bytes),
    /// This many bytes of any value.
    Anything(usize),
}

impl PendingOp {
    fn range(&self) -> Range<usize> {
        let len = match &self.bytes {
            Content::Known(bytes) => bytes.len(),
            Content::Anything(len) => *len,
        };
        self.at..self.at + len
    }

    /// Whether the operation may have written `byte` at `at`.
    pub(super) fn may_have_written(&self, at: usize, byte: u8) -> bool {
        self.range().contains(&at)
            && match &self.bytes {
                Content::Known(bytes) => bytes[at - self.at] == byte,
                Content::Anything(_) => true,
            }
    }
}

impl Area {
    /// The model of a buffer, starting with its current contents.
    pub fn new(buffer: Arc<Buffer>) -> Self {
        let image = read(&buffer, 0..buffer.len());
        Self {
            buffer,
            image,
            pending: Vec::new(),
            frozen: false,
        }
    }

    /// A write by the application.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
        // In bounds, as the previous line shows.
        let _ = self.buffer.write(at, bytes);
    }

    /// The actual bytes.
    pub(super) fn actual(&self, range: Range<usize>) -> Vec<u8> {
        read(&self.buffer, range)
    }

    /// The bytes according to the model, without operations in progress.
    pub(super) fn image(&self, range: Range<usize>) -> &[u8] {
        &self.image[range]
    }

    /// Operations in progress.
    pub(super) fn pending_ops(&self) -> &[PendingOp] {
        &self.pending
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// From now on operation `id` may write at `at`.
    pub(super) fn begin(&mut self, id: usize, at: usize, bytes: Content) {
        if !self.frozen {
            self.pending.push(PendingOp { id, at, bytes });
        }
    }

    /// Operation `id`, which [ended](Self::end), may write at `at` again.
    pub(super) fn resume(&mut self, id: usize, at: usize, bytes: Content) {
        self.pending.retain(|open| open.id != id);
        self.begin(id, at, bytes);
    }

    /// Operation `id` was executed: its bytes become part of the image. Earlier operations can't
    /// overwrite them, because operations are executed in order.
    pub(super) fn settle(&mut self, id: usize) {
        // [`Area::end`] may have split the operation into several pieces.
        while let Some(index) = self.pending.iter().position(|open| open.id == id) {
            let open = self.pending.remove(index);
            self.settle_one(&open);
        }
    }

    fn settle_one(&mut self, open: &PendingOp) {
        match &open.bytes {
            Content::Known(bytes) => self.image[open.range()].copy_from_slice(bytes),
            Content::Anything(_) => {
                let range = open.range();
                self.image[range.clone()].copy_from_slice(&read(&self.buffer, range));
            }
        }
    }

    /// Operation `id` writes nothing more, and the bytes that it has written so far are final.
    /// Returns whether the operation may have been executed.
    pub(super) fn end(&mut self, id: usize) -> bool {
        let Some(index) = self.pending.iter().position(|open| open.id == id) else {
            return true;
        };
        let range = self.pending[index].range();
        let actual = self.actual(range.clone());
        let explained = |(at, byte): (usize, &u8)| {
            let by_later = |open: &PendingOp| open.id >= id && open.may_have_written(at, *byte);
            self.pending.iter().any(by_later)
        };
        let executed = range.clone().zip(&actual).all(explained);
        let open = self.pending.remove(index);
        let wrote = |index: &usize| open.may_have_written(range.start + index, actual[*index]);
        let mut from = 0;
        while let Some(begin) = (from..actual.len()).find(wrote) {
            from = begin + (begin..actual.len()).take_while(wrote).count();
            let bytes = Content::Known(actual[begin..from].into());
            let at = range.start + begin;
            self.pending.push(PendingOp { id, at, bytes });
        }
        executed
    }

    /// Nothing accesses the area any more: its contents are final.
    pub(super) fn freeze(&mut self) -> Verdict {
        if !self.frozen {
            self.check(0..self.image.len())?;
            self.image = self.actual(0..self.image.len());
            self.pending.clear();
            self.frozen = true;
        }
        Ok(())
    }

    /// Checks that the bytes of operation `id`, or of later ones, are in place.
    pub(super) fn check_done(&self, id: usize) -> Verdict {
        let done = self.pending.iter().find(|open| open.id == id);
        for at in done.into_iter().flat_map(PendingOp::range) {
            let byte = self.actual(at..at + 1)[0];
            let may_have = |open: &PendingOp| open.id >= id && open.may_have_written(at, byte);
            if !self.pending.iter().any(may_have) {
                return violated(format!("byte {at} is {byte:#04x}, which is older"));
            }
        }
        Ok(())
    }

    /// Checks the whole area.
    pub(super) fn check_all(&self) -> Verdict {
        self.check(0..self.image.len())
    }

    /// Checks the bytes in `range`.
    pub(super) fn check(&self, range: Range<usize>) -> Verdict {
        let actual = self.actual(range.clone());
        if actual == self.image[range.clone()] {
            return Ok(());
        }
        for (at, byte) in range.zip(actual) {
            let expected = self.image[at];
            let may_have = |open: &PendingOp| open.may_have_written(at, byte);
            // The latest operation is the most likely one.
            if byte != expected && !self.pending.iter().rev().any(may_have) {
                return violated(format!(
                    "byte {at} of {} is {byte:#04x}, but should be {expected:#04x} or what one of {} \
                     operations in progress writes",
                    self.image.len(),
                    self.pending.len()
                ));
            }
        }
        Ok(())
    }
}

fn read(buffer: &Buffer, range: Range<usize>) -> Vec<u8> {
    let mut out = vec![0; range.len()];
    // A range of the image, which is as long as the buffer.
    let _ = buffer.read(range.start, &mut out);
    out
}
