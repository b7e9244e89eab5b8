//! Sending, receiving and ending.

use super::*;
use crate::lingering;
use crate::stream::{Gather, Scatter};
use roce_verbs::memory::Registration;
use std::io::{IoSlice, IoSliceMut};

/// What a call that receives wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// MSG_PEEK: the bytes stay.
    pub peek: bool,
    /// MSG_WAITALL: waits until all slices are full, or the stream ends.
    pub wait_all: bool,
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
}

/// Which half of a connection `shutdown` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// SHUT_RD.
    Reads,
    /// SHUT_WR.
    Writes,
    /// SHUT_RDWR.
    Both,
}

/// The longest time that a socket that is being closed waits for the peer to acknowledge what was
/// sent. A peer that does not answer is given up before that.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// The time that a call waits itself, as most peers answer sooner. The rest goes on beside the
/// program, which a close does not hold up, as with TCP.
const QUICK_CLOSE: Duration = Duration::from_micros(200);

impl Socket {
    /// `recv`. Returns the number of bytes; 0 means that the peer sends no more.
    pub(crate) fn receive(
        &self,
        slices: &mut [IoSliceMut<'_>],
        flags: ReceiveFlags,
    ) -> Result<usize, Error> {
        let mut out = Scatter::new(slices);
        let limit = self.state.lock().settings.receive_timeout;
        let patience = self.patience(flags.dont_wait, limit);
        let mut received = 0;
        let waits_on = |out: &mut Scatter<'_, '_>, received: usize| {
            received == 0 || flags.wait_all && !flags.peek && !out.is_full()
        };
        let waited = self.wait(patience, |state| {
            let stream = state.connected()?;
            if out.is_full() {
                return Ok(Some(()));
            }
            received += stream.receive_into(&mut out, flags.peek);
            if !waits_on(&mut out, received) {
                return Ok(Some(()));
            }
            if stream.unread() == 0 && stream.reads_nothing() {
                if received == 0 {
                    stream.report_break()?;
                }
                return Ok(Some(()));
            }
            Ok(None)
        });
        match waited {
            Err(error) if received == 0 => Err(error),
            _ => Ok(received),
        }
    }

    /// `send`. A blocking socket sends all bytes, unless the connection ends.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], dont_wait: bool) -> Result<usize, Error> {
        self.send_by(slices, dont_wait, |stream, data| {
            if !stream.tell_mappings()? {
                return Ok(0);
            }
            stream.send(data)
        })
    }

    /// `riowrite`: as `send`, into memory that the peer has mapped to an offset. Sends less where
    /// the mapping ends.
    pub(crate) fn write_mapped(
        &self,
        slices: &[IoSlice<'_>],
        offset: u64,
        dont_wait: bool,
    ) -> Result<usize, Error> {
        let mut next = offset;
        self.send_by(slices, dont_wait, |stream, data| {
            if !stream.tell_mappings()? {
                return Ok(0);
            }
            if !stream.is_mapped_by_peer(next) {
                data.drop_rest();
                return Ok(0);
            }
            let written = stream.write_mapped(data, next)?;
            next = next.wrapping_add(written as u64);
            Ok(written)
        })
    }

    fn send_by(
        &self,
        slices: &[IoSlice<'_>],
        dont_wait: bool,
        mut send: impl FnMut(&mut Stream, &mut Gather<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Error> {
        let mut data = Gather::new(slices);
        let limit = self.state.lock().settings.send_timeout;
        let patience = self.patience(dont_wait, limit);
        let mut sent = 0;
        let waited = self.wait(patience, |state| {
            let stream = state.connected()?;
            if stream.sends_nothing() {
                stream.report_break()?;
                return Err(Errno::EPIPE.into());
            }
            sent += send(stream, &mut data)?;
            let all = data.left() == 0;
            Ok((all || sent > 0 && patience == Patience::None).then_some(()))
        });
        match waited {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    /// `shutdown`. What was sent still reaches the peer. A socket that listens refuses all further
    /// requests if its reads are shut, as with TCP.
    pub(crate) fn shut_down(&self, which: Shutdown) -> Result<(), Error> {
        {
            let mut state = self.state.lock();
            if let Phase::Listening(listening) = &mut state.phase {
                if which != Shutdown::Writes {
                    listening.shut();
                    self.announce();
                }
                return Ok(());
            }
            let stream = state.connected()?;
            match which {
                Shutdown::Reads => stream.shut_reads(),
                Shutdown::Writes => stream.shut_writes(),
                Shutdown::Both => stream.disconnect(),
            }
            self.announce();
        }
        let limit = match self.is_nonblocking() {
            true => QUICK_CLOSE,
            false => CLOSE_LIMIT,
        };
        // If the send queue is still full then, the next call sends the message.
        self.wait_at_most(limit, |stream| !stream.owes_message());
        Ok(())
    }

    /// Waits at most `limit` until what was sent has reached the peer, or never will. Returns
    /// whether that is so.
    fn flush(&self, limit: Duration) -> bool {
        self.wait_at_most(limit, Stream::is_flushed)
    }

    /// Waits at most `limit` for a state of the stream. Returns whether the stream has it, or the
    /// socket is no longer connected.
    fn wait_at_most(&self, limit: Duration, is_there: impl Fn(&Stream) -> bool) -> bool {
        let end = Instant::now() + limit;
        let flushed = || {
            self.wait(Patience::Until(Some(end)), |state| match &state.phase {
                Phase::Stream(stream) if !is_there(stream) => Ok(None),
                _ => Ok(Some(())),
            })
        };
        loop {
            match flushed() {
                // A signal is no reason to lose data.
                Err(error) if error.errno() == Errno::EINTR => {}
                result => return result.is_ok(),
            }
        }
    }

    /// `close`. The caller has taken the socket out of the table.
    pub(crate) fn close(self: Arc<Self>) {
        let linger = {
            let mut state = self.state.lock();
            let linger = state.settings.linger;
            match &mut state.phase {
                Phase::Stream(stream) if linger == Some(Duration::ZERO) => {
                    stream.break_off(Errno::ECONNRESET);
                }
                Phase::Stream(stream) => stream.disconnect(),
                _ => {}
            }
            self.announce();
            linger.filter(|_| !self.is_nonblocking())
        };
        if self.flush(linger.unwrap_or(QUICK_CLOSE)) {
            return self.end();
        }
        lingering::finish(move || self.finish_closing());
    }

    /// The rest of a close, which waits.
    fn finish_closing(&self) {
        self.flush(CLOSE_LIMIT);
        self.end();
    }

    /// The process ends: the peer gets what was sent, for at most `limit`.
    pub(crate) fn leave(&self, limit: Duration) {
        // Another thread may hold the lock for ever.
        let Some(mut state) = self.state.try_lock_for(limit) else {
            return;
        };
        if let Phase::Stream(stream) = &mut state.phase {
            stream.disconnect();
            drop(state);
            self.flush(limit);
        }
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Closed;
        state.claim = None;
        self.announce();
    }

    /// `riomap`.
    pub(crate) fn map(
        &self,
        register: impl FnOnce(&roce_verbs::ProtectionDomain) -> Result<Registration, Error>,
        offset: u64,
        remote: bool,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        let stream = state.connected()?;
        let registration = register(stream.pd())?;
        stream.map(registration, offset, remote)
    }

    /// `riounmap`.
    pub(crate) fn unmap(&self, address: u64, len: usize) -> Result<(), Error> {
        self.state.lock().connected()?.unmap(address, len)
    }
}

impl State {
    /// The stream of a connected socket.
    fn connected(&mut self) -> Result<&mut Stream, Error> {
        match &mut self.phase {
            Phase::Stream(stream) => Ok(stream),
            // A program whose connect has not finished may try.
            Phase::Connecting(_) => Err(Errno::EAGAIN.into()),
            Phase::Closed => Err(Errno::EBADF.into()),
            Phase::Failed(_) | Phase::Idle | Phase::Listening(_) => Err(Errno::ENOTCONN.into()),
        }
    }
}

impl Stream {
    /// The error of a connection that was cut off, once.
    fn report_break(&mut self) -> Result<(), Error> {
        match self.take_break() {
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }
}
