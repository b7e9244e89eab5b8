//! Socket options.

use super::*;
use crate::options::{MAX_BUFFER, MAX_QUEUE, MIN_SEND_BUFFER};
use crate::socket::{Number, Time};

impl Datagram {
    /// Sets the size of a queue or buffer for endpoints that are created later. The UDP socket has the
    /// other options.
    ///
    /// # Errors
    /// EINVAL if the value is out of range, ENOPROTOOPT for an option of the UDP socket.
    pub(crate) fn set_number(&self, option: Number, value: i32) -> Result<(), Error> {
        let what = || format!("{option:?} must be at least 0, not {value}");
        let size = usize::try_from(value).map_err(|_| Error::new(Errno::EINVAL, what()))?;
        let queue = size.min(usize::from(MAX_QUEUE)) as u16;
        let twice = size.saturating_mul(2);
        let sizes = &mut self.state.lock().sizes;
        match option {
            Number::ReceiveBuffer => sizes.receive_buffer = twice.min(MAX_BUFFER),
            Number::SendBuffer => sizes.send_buffer = twice.clamp(MIN_SEND_BUFFER, MAX_BUFFER),
            Number::SendQueue => sizes.send_queue = queue,
            Number::ReceiveQueue => sizes.receive_queue = queue,
            Number::Inline => sizes.inline = queue,
            _ => return Err(Errno::ENOPROTOOPT.into()),
        }
        Ok(())
    }

    /// The size of a queue or buffer.
    ///
    /// # Errors
    /// ENOPROTOOPT for an option of the UDP socket.
    pub(crate) fn number(&self, option: Number) -> Result<i32, Error> {
        let sizes = self.state.lock().sizes;
        let size = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        Ok(match option {
            Number::ReceiveBuffer => size(sizes.receive_buffer),
            Number::SendBuffer => size(sizes.send_buffer),
            Number::SendQueue => sizes.send_queue.into(),
            Number::ReceiveQueue => sizes.receive_queue.into(),
            Number::Inline => sizes.inline.into(),
            _ => return Err(Errno::ENOPROTOOPT.into()),
        })
    }

    /// Sets a timeout; `None` means no limit. SO_LINGER has no effect.
    pub(crate) fn set_time(&self, option: Time, time: Option<Duration>) {
        let time = time.filter(|time| !time.is_zero());
        let mut state = self.state.lock();
        match option {
            Time::Receive => state.receive_timeout = time,
            Time::Send => state.send_timeout = time,
            Time::Linger => {}
        }
    }

    /// A timeout.
    pub(crate) fn time(&self, option: Time) -> Option<Duration> {
        let state = self.state.lock();
        match option {
            Time::Receive => state.receive_timeout,
            Time::Send => state.send_timeout,
            Time::Linger => None,
        }
    }

    /// SO_ERROR: takes the error that the network has reported.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state.lock().error.take()
    }

    /// FIONREAD: the length of the first datagram.
    pub(crate) fn unread(&self) -> usize {
        let mut state = self.state.lock();
        self.progress_locked(&mut state, true);
        state.inbox.first().map_or(0, |first| first.len)
    }
}
