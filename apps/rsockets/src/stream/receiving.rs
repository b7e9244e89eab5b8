//! The receiving half of a stream.

use super::endpoint::{RECEIVE, SPARE_RECEIVES, post_receive};
use super::{End, Stream};
use crate::wire::{Control, Message};
use nix::errno::Errno;
use roce_verbs::completion::{Completion, WcStatus};
use std::io::IoSliceMut;

/// Where a call puts the bytes that it receives: several slices, of which the first bytes are full.
pub(crate) struct Scatter<'a, 'b> {
    slices: &'a mut [IoSliceMut<'b>],
    /// The first slice with room, and the number of bytes in it.
    at: (usize, usize),
}

impl<'a, 'b> Scatter<'a, 'b> {
    pub(crate) fn new(slices: &'a mut [IoSliceMut<'b>]) -> Self {
        Self { slices, at: (0, 0) }
    }

    /// The next free bytes.
    fn room(&mut self) -> Option<&mut [u8]> {
        while self
            .slices
            .get(self.at.0)
            .is_some_and(|slice| slice.len() == self.at.1)
        {
            self.at = (self.at.0 + 1, 0);
        }
        let (index, filled) = self.at;
        self.slices.get_mut(index).map(|slice| &mut slice[filled..])
    }

    fn fill(&mut self, len: usize) {
        self.at.1 += len;
    }

    /// Whether no byte is free.
    pub(crate) fn is_full(&mut self) -> bool {
        self.room().is_none()
    }
}

impl Stream {
    /// Handles a completion.
    pub(super) fn complete(&mut self, completion: &Completion) {
        let failed = match completion.status {
            WcStatus::Success => None,
            // The peer has ended the connection, or another completion says why it is over.
            WcStatus::WorkRequestFlushed => Some(Errno::ECONNRESET),
            WcStatus::RetryExceeded => Some(Errno::ETIMEDOUT),
            _ => Some(Errno::EIO),
        };
        if completion.wr_id != RECEIVE {
            // Those before it have completed as well.
            for _ in 0..self.signaled.pop_front().unwrap_or(0) {
                self.outbox.complete();
            }
        }
        if let Some(errno) = failed {
            return self.break_off(errno);
        }
        if completion.wr_id == RECEIVE {
            self.used_receives += 1;
            self.receive(completion.imm);
        }
    }

    /// Handles a message.
    fn receive(&mut self, imm: Option<u32>) {
        // A SEND without immediate data is nothing that an rsocket sends.
        let Some(message) = imm.and_then(|imm| Message::parse(imm).ok()) else {
            return self.break_off(Errno::EPROTO);
        };
        match message {
            Message::Data(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                if self.inbox.announce(len).is_err() {
                    self.break_off(Errno::EPROTO);
                }
            }
            Message::Credits(granted) => self.outbox.set_credits(granted),
            Message::Mapping(_) => self.inbox.count_message(),
            Message::Control(Control::KeepAlive) => {}
            Message::Control(Control::Shutdown) => {
                self.reads = false;
                if self.unsent.is_some() {
                    // The peer does not know yet that this end sends no more.
                    self.unsent = Some(Control::Disconnect);
                } else if !self.writes {
                    self.ended();
                }
            }
            Message::Control(Control::Disconnect) => {
                (self.reads, self.writes) = (false, false);
                // The peer takes no further message.
                self.unsent = None;
                self.ended();
            }
        }
        self.take_offer();
    }

    fn ended(&mut self) {
        if self.end == End::Open {
            self.end = End::Disconnected;
        }
    }

    /// Posts receives again, if many are missing.
    pub(super) fn repost(&mut self) {
        if self.used_receives < SPARE_RECEIVES / 2 {
            return;
        }
        let Some(qp) = self.qp() else { return };
        let posted = (0..self.used_receives).try_for_each(|_| post_receive(qp));
        self.used_receives = 0;
        if let Err(error) = posted {
            // A QP in ERR flushes what is posted, so this is another failure.
            self.break_off(error.errno());
        }
    }

    /// Copies bytes that have arrived, as many as there are room for, and takes them unless `peek`.
    pub(crate) fn receive_into(&mut self, out: &mut Scatter<'_, '_>, peek: bool) -> usize {
        let mut copied = 0;
        while self.inbox.unread() > copied {
            let Some(room) = out.room() else { break };
            let mut now = 0;
            for stretch in self.inbox.stretches(copied, room.len()) {
                let part = &mut room[now..now + stretch.len()];
                // The stretch lies in the buffer.
                let _ = self.endpoint.receive.read(stretch.start, part);
                now += stretch.len();
            }
            out.fill(now);
            copied += now;
        }
        if !peek {
            self.inbox.take(copied);
            self.speak();
        }
        copied
    }

    /// The number of bytes that have arrived.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.unread()
    }

    /// Whether a program that wants to read need not wait: for bytes, for the end, or for an error.
    pub(crate) fn is_readable(&self) -> bool {
        self.inbox.unread() > 0 || self.reads_nothing()
    }

    /// Whether no further bytes can arrive.
    pub(crate) fn reads_nothing(&self) -> bool {
        !self.reads || self.end != End::Open
    }
}
