//! Sending, receiving, `shutdown` and `close`.

use super::*;
use crate::lingering;
use crate::stream::{Gather, Scatter};
use roce_verbs::memory::Registration;
use std::io::{IoSlice, IoSliceMut};

/// Flags of a receive call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// MSG_PEEK: leaves the bytes in place.
    pub peek: bool,
    /// MSG_WAITALL: waits until all slices are full or the stream ends.
    pub wait_all: bool,
    /// MSG_DONTWAIT.
    pub dont_wait: bool,
}

/// Which half of a connection to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// SHUT_RD.
    Reads,
    /// SHUT_WR.
    Writes,
    /// SHUT_RDWR.
    Both,
}

/// How long a closing socket waits at most for the peer to acknowledge everything. The connection to a
/// peer that does not answer fails earlier.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

/// How long the call itself waits: most peers answer sooner. Later, the close continues in the
/// background, so that it does not block the program, as with TCP.
const QUICK_CLOSE: Duration = Duration::from_micros(200);

impl Socket {
    /// `recv`. Returns the number of bytes; 0 is the end of the stream.
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
            let stream = state.connected_stream()?;
            if out.is_full() {
                return Ok(Some(()));
            }
            received += stream.receive_into(&mut out, flags.peek);
            if !waits_on(&mut out, received) {
                return Ok(Some(()));
            }
            if stream.unread() == 0 && stream.is_read_closed() {
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

    /// `send`. A blocking socket sends all bytes unless the connection ends.
    pub(crate) fn send(&self, slices: &[IoSlice<'_>], dont_wait: bool) -> Result<usize, Error> {
        self.send_with(slices, dont_wait, |stream, data| {
            if !stream.announce_mappings()? {
                return Ok(0);
            }
            stream.send(data)
        })
    }

    /// `riowrite`: sends into memory that the peer has mapped to an offset. Stops where the mapping ends.
    pub(crate) fn write_mapped(
        &self,
        slices: &[IoSlice<'_>],
        offset: u64,
        dont_wait: bool,
    ) -> Result<usize, Error> {
        let mut next = offset;
        self.send_with(slices, dont_wait, |stream, data| {
            if !stream.announce_mappings()? {
                return Ok(0);
            }
            if !stream.is_mapped_by_peer(next) {
                data.discard_rest();
                return Ok(0);
            }
            let written = stream.write_mapped(data, next)?;
            next = next.wrapping_add(written as u64);
            Ok(written)
        })
    }

    fn send_with(
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
            let stream = state.connected_stream()?;
            if stream.is_write_closed() {
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

    /// `shutdown`. Bytes in flight still reach the peer. A listening socket refuses all further requests
    /// once its reads are shut down, as with TCP.
    pub(crate) fn shut_down(&self, which: Shutdown) -> Result<(), Error> {
        {
            let mut state = self.state.lock();
            if let Phase::Listening(listening) = &mut state.phase {
                if which != Shutdown::Writes {
                    listening.refuse_requests();
                    self.wake_sleepers();
                }
                return Ok(());
            }
            let stream = state.connected_stream()?;
            match which {
                Shutdown::Reads => stream.shut_reads(),
                Shutdown::Writes => stream.shut_writes(),
                Shutdown::Both => stream.disconnect(),
            }
            self.wake_sleepers();
        }
        let limit = match self.is_nonblocking() {
            true => QUICK_CLOSE,
            false => CLOSE_LIMIT,
        };
        // If the send queue is still full after that, the next call sends the message.
        self.wait_at_most(limit, |stream| !stream.has_pending_control());
        Ok(())
    }

    /// Waits at most `limit` until everything has reached the peer or never will. Returns whether that
    /// happened.
    fn flush(&self, limit: Duration) -> bool {
        self.wait_at_most(limit, Stream::is_flushed)
    }

    /// Waits at most `limit` until `is_done` holds or the socket is no longer connected. Returns whether
    /// that happened.
    fn wait_at_most(&self, limit: Duration, is_done: impl Fn(&Stream) -> bool) -> bool {
        let end = Instant::now() + limit;
        let flushed = || {
            self.wait(Patience::Until(Some(end)), |state| match &state.phase {
                Phase::Stream(stream) if !is_done(stream) => Ok(None),
                _ => Ok(Some(())),
            })
        };
        loop {
            match flushed() {
                // A signal must not lose data.
                Err(error) if error.errno() == Errno::EINTR => {}
                result => return result.is_ok(),
            }
        }
    }

    /// `close`. The caller has removed the socket from the table.
    pub(crate) fn close(self: Arc<Self>) {
        let linger = {
            let mut state = self.state.lock();
            let linger = state.settings.linger;
            match &mut state.phase {
                Phase::Stream(stream) if linger == Some(Duration::ZERO) => {
                    stream.abort(Errno::ECONNRESET);
                }
                Phase::Stream(stream) => stream.disconnect(),
                _ => {}
            }
            self.wake_sleepers();
            linger.filter(|_| !self.is_nonblocking())
        };
        if self.flush(linger.unwrap_or(QUICK_CLOSE)) {
            return self.mark_closed();
        }
        lingering::close_in_background(move || self.finish_closing());
    }

    /// The part of a close that waits for the peer.
    fn finish_closing(&self) {
        self.flush(CLOSE_LIMIT);
        self.mark_closed();
    }

    /// At exit: waits at most `limit` until the peer has received everything.
    pub(crate) fn flush_at_exit(&self, limit: Duration) {
        // Another thread may hold the lock forever.
        let Some(mut state) = self.state.try_lock_for(limit) else {
            return;
        };
        if let Phase::Stream(stream) = &mut state.phase {
            stream.disconnect();
            drop(state);
            self.flush(limit);
        }
    }

    fn mark_closed(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Closed;
        state.claim = None;
        self.wake_sleepers();
    }

    /// `riomap`.
    pub(crate) fn map(
        &self,
        register: impl FnOnce(&roce_verbs::ProtectionDomain) -> Result<Registration, Error>,
        offset: u64,
        remote: bool,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        let stream = state.connected_stream()?;
        let registration = register(stream.pd())?;
        stream.map(registration, offset, remote)
    }

    /// `riounmap`.
    pub(crate) fn unmap(&self, address: u64, len: usize) -> Result<(), Error> {
        self.state.lock().connected_stream()?.unmap(address, len)
    }
}

impl State {
    /// The stream of a connected socket.
    fn connected_stream(&mut self) -> Result<&mut Stream, Error> {
        match &mut self.phase {
            Phase::Stream(stream) => Ok(stream),
            // The connection attempt is still in progress.
            Phase::Connecting(_) => Err(Errno::EAGAIN.into()),
            Phase::Closed => Err(Errno::EBADF.into()),
            Phase::Failed(_) | Phase::Idle | Phase::Listening(_) => Err(Errno::ENOTCONN.into()),
        }
    }
}

impl Stream {
    /// Returns the error of a broken connection once.
    fn report_break(&mut self) -> Result<(), Error> {
        match self.take_error() {
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }
}
