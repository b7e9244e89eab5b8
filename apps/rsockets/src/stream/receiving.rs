//! The receiving half of a stream.

use super::endpoint::{RECEIVE, SPARE_RECEIVES, post_receive};
use super::{End, Stream};
use crate::wire::{Control, Message};
use nix::errno::Errno;
use roce_verbs::completion::{Completion, WcStatus};
use std::io::IoSliceMut;

/// A cursor over the slices that a call fills.
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
            // The peer has ended the connection, or another completion has the cause.
            WcStatus::WorkRequestFlushed => Some(Errno::ECONNRESET),
            WcStatus::RetryExceeded => Some(Errno::ETIMEDOUT),
            _ => Some(Errno::EIO),
        };
        if completion.wr_id != RECEIVE {
            // The unsignaled requests before it have completed, too.
            for _ in 0..self.signaled.pop_front().unwrap_or(0) {
                self.outbox.complete();
            }
        }
        if let Some(errno) = failed {
            return self.abort(errno);
        }
        if completion.wr_id == RECEIVE {
            self.used_receives += 1;
            self.receive(completion.imm);
        }
    }

    /// Handles a message.
    fn receive(&mut self, imm: Option<u32>) {
        // An rsocket never sends a message without immediate data.
        let Some(message) = imm.and_then(|imm| Message::parse(imm).ok()) else {
            return self.abort(Errno::EPROTO);
        };
        match message {
            Message::Data(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                if self.inbox.announce(len).is_err() {
                    self.abort(Errno::EPROTO);
                }
            }
            Message::Credits(granted) => self.outbox.set_credits(granted),
            Message::Mapping(_) => self.inbox.count_message(),
            Message::Control(Control::KeepAlive) => {}
            Message::Control(Control::Shutdown) => {
                self.reads = false;
                if self.unsent.is_some() {
                    // The own Shutdown has not been sent: combine both.
                    self.unsent = Some(Control::Disconnect);
                } else if !self.writes {
                    self.mark_disconnected();
                }
            }
            Message::Control(Control::Disconnect) => {
                (self.reads, self.writes) = (false, false);
                // The peer accepts no further message.
                self.unsent = None;
                self.mark_disconnected();
            }
        }
        self.take_offer();
    }

    fn mark_disconnected(&mut self) {
        if self.end == End::Open {
            self.end = End::Disconnected;
        }
    }

    /// Reposts receives once enough are missing.
    pub(super) fn repost(&mut self) {
        if self.used_receives < SPARE_RECEIVES / 2 {
            return;
        }
        let Some(qp) = self.qp() else { return };
        let posted = (0..self.used_receives).try_for_each(|_| post_receive(qp));
        self.used_receives = 0;
        if let Err(error) = posted {
            // A QP in ERR accepts and flushes receives, so this is another failure.
            self.abort(error.errno());
        }
    }

    /// Copies as many received bytes as fit, and removes them unless `peek`.
    pub(crate) fn receive_into(&mut self, out: &mut Scatter<'_, '_>, peek: bool) -> usize {
        let mut copied = 0;
        while self.inbox.unread() > copied {
            let Some(room) = out.room() else { break };
            let mut now = 0;
            for stretch in self.inbox.stretches(copied, room.len()) {
                let part = &mut room[now..now + stretch.len()];
                // Cannot fail: the stretch lies in the buffer.
                let _ = self.endpoint.receive.read(stretch.start, part);
                now += stretch.len();
            }
            out.fill(now);
            copied += now;
        }
        if !peek {
            self.inbox.take(copied);
            self.send_pending();
        }
        copied
    }

    /// The number of unread bytes.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.unread()
    }

    /// Whether a read would not block: there are bytes, the end of the stream, or an error.
    pub(crate) fn is_readable(&self) -> bool {
        self.inbox.unread() > 0 || self.is_read_closed()
    }

    /// Whether no further bytes can arrive.
    pub(crate) fn is_read_closed(&self) -> bool {
        !self.reads || self.end != End::Open
    }
}
