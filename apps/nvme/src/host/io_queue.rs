//! I/O queues: reads, writes and flushes.

use super::durability::{FlushPoint, Journal, WriteId};
use super::queue::Queue;
use super::{IoBuffer, NamespaceInfo};
use crate::Error;
use crate::wire::io::{self, Blocks};
use crate::wire::{Command, Response, Sgl, Status};
use parking_lot::Mutex;
use roce_verbs::ProtectionDomain;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// An I/O queue. One thread uses it at a time; queues are independent of each other.
#[derive(Debug)]
pub struct IoQueue {
    queue: Queue,
    pd: ProtectionDomain,
    journal: Arc<Mutex<Journal>>,
    /// The most bytes of data in a command capsule.
    in_capsule_len: usize,
    /// The most bytes that a command transfers.
    max_transfer: u64,
    /// The outstanding commands, by identifier.
    outstanding: Vec<Option<Outstanding>>,
    /// Commands that are over and that nobody has asked for yet.
    done: VecDeque<Done>,
    next_tag: u64,
}

/// Identifies a read, write or flush of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u64);

/// A read, write or flush that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The result of the call that posted it.
    pub tag: Tag,
    /// The operation: "read", "write" or "flush".
    pub operation: &'static str,
    /// The controller's answer.
    pub status: Status,
}

impl Done {
    /// Nothing, if the operation succeeded.
    ///
    /// # Errors
    /// The controller's answer, if that is not "success".
    pub fn ok(self) -> Result<(), Error> {
        match self.status.is_success() {
            true => Ok(()),
            false => Err(Error::Command {
                command: self.operation,
                status: self.status,
            }),
        }
    }
}

#[derive(Debug)]
struct Outstanding {
    tag: Tag,
    operation: Operation,
    /// Keeps the memory until the command is over.
    _buffer: Option<IoBuffer>,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Write { id: WriteId, durable: bool },
    Flush { namespace: u32, point: FlushPoint },
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write { .. } => "write",
            Self::Flush { .. } => "flush",
        }
    }
}

impl IoQueue {
    pub(super) fn new(
        queue: Queue,
        pd: ProtectionDomain,
        journal: Arc<Mutex<Journal>>,
        (in_capsule_len, max_transfer): (usize, u64),
    ) -> Self {
        let slots = queue.room() + 1;
        Self {
            queue,
            pd,
            journal,
            in_capsule_len,
            max_transfer,
            outstanding: (0..slots).map(|_| None).collect(),
            done: VecDeque::new(),
            next_tag: 0,
        }
    }

    /// Allocates a buffer for reads and writes of this queue.
    ///
    /// # Errors
    /// If the address space cannot hold `len` bytes.
    pub fn allocate(&self, len: usize) -> Result<IoBuffer, Error> {
        IoBuffer::new(&self.pd, self.queue.number, len)
    }

    /// How many operations may be posted now.
    pub fn room(&self) -> usize {
        self.queue.room()
    }

    /// How many operations have been posted and are not over.
    pub fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// The most bytes that one read or write transfers.
    pub fn max_transfer(&self) -> u64 {
        self.max_transfer
    }

    /// Reads the bytes of `disk` from `offset` on into `range` of `buffer`.
    ///
    /// # Errors
    /// If offset or length are not multiples of the block's length, or reach beyond the end of the
    /// disk or the buffer; if the length exceeds [`IoQueue::max_transfer`]; if there is no
    /// [`IoQueue::room`]; or if the queue has failed.
    pub fn read(
        &mut self,
        disk: &NamespaceInfo,
        offset: u64,
        buffer: &IoBuffer,
        range: Range<usize>,
    ) -> Result<Tag, Error> {
        let blocks = self.blocks(disk, offset, buffer, &range)?;
        let command = io::read(&blocks).with_sgl(&buffer.keyed(range));
        self.post(command, None, Operation::Read, Some(buffer))
    }

    /// Writes `range` of `buffer` to `disk`, from the byte `offset` on.
    ///
    /// # Errors
    /// As for [`IoQueue::read`].
    pub fn write(
        &mut self,
        disk: &NamespaceInfo,
        offset: u64,
        buffer: &IoBuffer,
        range: Range<usize>,
    ) -> Result<Tag, Error> {
        self.write_with(disk, offset, buffer, range, false)
    }

    /// As [`IoQueue::write`], and the bytes are durable when the controller answers ("force unit
    /// access").
    ///
    /// # Errors
    /// As for [`IoQueue::read`].
    pub fn write_durable(
        &mut self,
        disk: &NamespaceInfo,
        offset: u64,
        buffer: &IoBuffer,
        range: Range<usize>,
    ) -> Result<Tag, Error> {
        self.write_with(disk, offset, buffer, range, true)
    }

    fn write_with(
        &mut self,
        disk: &NamespaceInfo,
        offset: u64,
        buffer: &IoBuffer,
        range: Range<usize>,
        durable: bool,
    ) -> Result<Tag, Error> {
        let blocks = self.blocks(disk, offset, buffer, &range)?;
        let len = range.len();
        let command = io::write(&blocks, durable);
        let (command, data) = match len <= self.in_capsule_len {
            true => {
                let sgl = Sgl::InCapsule {
                    offset: 0,
                    len: len as u32,
                };
                (
                    command.with_sgl(&sgl),
                    Some(buffer.slice(range.start, len)?),
                )
            }
            false => (command.with_sgl(&buffer.keyed(range)), None),
        };
        let bytes = offset..offset + len as u64;
        let id = self.journal.lock().posted(disk.number, bytes);
        let operation = Operation::Write { id, durable };
        self.post(command, data, operation, Some(buffer))
    }

    /// Makes all writes to `disk` durable that the controller has answered before this call.
    ///
    /// # Errors
    /// If there is no [`IoQueue::room`], or the queue has failed.
    pub fn flush(&mut self, disk: &NamespaceInfo) -> Result<Tag, Error> {
        let namespace = disk.number;
        let point = self.journal.lock().flush_posted(namespace);
        let operation = Operation::Flush { namespace, point };
        self.post(io::flush(namespace), None, operation, None)
    }

    /// Waits until an operation is over. Operations may be over in another order than they were
    /// posted in.
    ///
    /// # Errors
    /// If nothing is outstanding, or the queue has failed.
    pub fn wait(&mut self) -> Result<Done, Error> {
        if let Some(done) = self.done.pop_front() {
            return Ok(done);
        }
        if self.queue.outstanding() == 0 {
            let what = format!("nothing is outstanding in queue {}", self.queue.number);
            return Err(Error::Request(what));
        }
        let (id, response) = self.queue.next()?;
        self.over(id, &response)
    }

    /// An operation that is over, if there is one.
    ///
    /// # Errors
    /// If the queue has failed.
    pub fn poll(&mut self) -> Result<Option<Done>, Error> {
        if let Some(done) = self.done.pop_front() {
            return Ok(Some(done));
        }
        match self.queue.poll()? {
            Some((id, response)) => self.over(id, &response).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for the operation `tag`. Others that end meanwhile are kept for [`IoQueue::wait`].
    ///
    /// # Errors
    /// If `tag` is not outstanding, or the queue has failed.
    pub fn wait_for(&mut self, tag: Tag) -> Result<Done, Error> {
        if let Some(at) = self.done.iter().position(|done| done.tag == tag) {
            return Ok(self.done.remove(at).expect("it was found there"));
        }
        loop {
            if !self.outstanding.iter().flatten().any(|o| o.tag == tag) {
                let what = format!("{tag:?} is not outstanding in queue {}", self.queue.number);
                return Err(Error::Request(what));
            }
            let (id, response) = self.queue.next()?;
            let done = self.over(id, &response)?;
            match done.tag == tag {
                true => return Ok(done),
                false => self.done.push_back(done),
            }
        }
    }

    /// Waits until all operations are over, and forgets them.
    ///
    /// # Errors
    /// The first error of an operation or of the queue.
    pub fn drain(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        while !self.done.is_empty() || self.queue.outstanding() > 0 {
            first = first.and(self.wait()?.ok());
        }
        first
    }

    pub(super) fn disconnect(self, patience: Duration) -> bool {
        self.queue.disconnect(patience)
    }

    fn post(
        &mut self,
        command: Command,
        data: Option<roce_verbs::Sge>,
        operation: Operation,
        buffer: Option<&IoBuffer>,
    ) -> Result<Tag, Error> {
        let id = self.queue.post(command, data).inspect_err(|_| {
            if let Operation::Write { id, .. } = operation {
                self.journal.lock().failed(id);
            }
        })?;
        self.next_tag += 1;
        let tag = Tag(self.next_tag);
        self.outstanding[usize::from(id)] = Some(Outstanding {
            tag,
            operation,
            _buffer: buffer.cloned(),
        });
        Ok(tag)
    }

    fn over(&mut self, id: u16, response: &Response) -> Result<Done, Error> {
        let Some(outstanding) = self.outstanding[usize::from(id)].take() else {
            return Err(self
                .queue
                .fail(format!("command {id:#x} was answered twice")));
        };
        let status = response.status;
        let operation = outstanding.operation;
        match operation {
            Operation::Write { id, durable } if status.is_success() => {
                self.journal.lock().written(id, durable);
            }
            Operation::Write { id, .. } => self.journal.lock().failed(id),
            Operation::Flush { namespace, point } if status.is_success() => {
                self.journal.lock().flushed(namespace, point);
            }
            Operation::Flush { .. } | Operation::Read => {}
        }
        Ok(Done {
            tag: outstanding.tag,
            operation: operation.name(),
            status,
        })
    }

    /// The blocks of a transfer.
    fn blocks(
        &self,
        disk: &NamespaceInfo,
        offset: u64,
        buffer: &IoBuffer,
        range: &Range<usize>,
    ) -> Result<Blocks, Error> {
        buffer.check(self.queue.number, range)?;
        let (len, block) = (range.len() as u64, u64::from(disk.block_len));
        let refuse = |what: String| Err(Error::Request(what));
        if len == 0 || !len.is_multiple_of(block) || !offset.is_multiple_of(block) {
            return refuse(format!(
                "{len} bytes at offset {offset} are no whole blocks of {block} bytes"
            ));
        }
        if offset.checked_add(len).is_none_or(|end| end > disk.len()) {
            let disk = disk.len();
            return refuse(format!(
                "{len} bytes at offset {offset} reach beyond the end of a namespace of {disk} bytes"
            ));
        }
        if len > self.max_transfer {
            let most = self.max_transfer;
            return refuse(format!(
                "{len} bytes are more than a command transfers: {most}"
            ));
        }
        Ok(Blocks {
            namespace: disk.number,
            first: offset / block,
            count: (len / block) as u32,
        })
    }
}
