//! Socket options.

use super::*;
use crate::options::Number;
use crate::socket::Time;

impl Datagram {
    /// Sets the size of a queue or buffer for endpoints that are created later. The UDP socket has the
    /// other options.
    ///
    /// # Errors
    /// EINVAL if the value is out of range, ENOPROTOOPT for an option of the UDP socket.
    pub(crate) fn set_number(&self, option: Number, value: i32) -> Result<(), Error> {
        if option == Number::Mappings || !self.state.lock().sizes.set(option, value)? {
            return Err(Errno::ENOPROTOOPT.into());
        }
        Ok(())
    }

    /// The size of a queue or buffer.
    ///
    /// # Errors
    /// ENOPROTOOPT for an option of the UDP socket.
    pub(crate) fn number(&self, option: Number) -> Result<i32, Error> {
        let size = self.state.lock().sizes.get(option);
        size.filter(|_| option != Number::Mappings)
            .ok_or_else(|| Errno::ENOPROTOOPT.into())
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
