//! Socket options.

use super::*;
use crate::keepalive::{self, Probe};
use crate::options::Number;
use std::sync::Weak;

/// Options that programs set and read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) reuse_address: bool,
    pub(crate) keep_alive: bool,
    /// Seconds between keepalive probes.
    pub(crate) keep_idle: Option<u32>,
    pub(crate) oob_inline: bool,
    pub(crate) no_delay: bool,
    pub(crate) v6_only: bool,
    /// SO_LINGER: how long a close waits.
    pub(crate) linger: Option<Duration>,
    /// The path to connect along.
    pub(crate) route: Option<Route>,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
}

impl Settings {
    /// The interval of keepalive probes, if SO_KEEPALIVE is set.
    fn keepalive_interval(&self) -> Option<Duration> {
        let seconds = self.keep_idle.unwrap_or(DEFAULT_KEEP_IDLE);
        self.keep_alive.then(|| Duration::from_secs(seconds.into()))
    }
}

/// An option that is a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Time {
    /// SO_LINGER.
    Linger,
    /// SO_RCVTIMEO.
    Receive,
    /// SO_SNDTIMEO.
    Send,
}

impl Socket {
    /// Sets an option. Buffer sizes have no effect once the socket is connected.
    ///
    /// # Errors
    /// EINVAL if the value is out of range, or a connected socket can no longer change the option.
    pub(crate) fn set_number(self: &Arc<Self>, option: Number, value: i32) -> Result<(), Error> {
        self.store_number(option, value)?;
        if matches!(option, Number::KeepAlive | Number::KeepIdle) {
            self.start_keepalive();
        }
        Ok(())
    }

    /// Starts keepalive probes if SO_KEEPALIVE is set.
    pub(super) fn start_keepalive(self: &Arc<Self>) {
        let every = self.state.lock().settings.keepalive_interval();
        if let Some(every) = every {
            let this: Weak<Self> = Arc::downgrade(self);
            keepalive::watch(this, every);
        }
    }

    fn store_number(&self, option: Number, value: i32) -> Result<(), Error> {
        let mut state = self.state.lock();
        let is_idle = matches!(state.phase, Phase::Idle | Phase::Listening(_));
        if option.is_fixed_once_connected() && !is_idle {
            let what = format!("{option:?} can only be set before the socket is connected");
            return Err(Error::new(Errno::EINVAL, what));
        }
        let State {
            sizes, settings, ..
        } = &mut *state;
        let is_on = value != 0;
        match option {
            Number::ReuseAddress => settings.reuse_address = is_on,
            Number::KeepAlive => settings.keep_alive = is_on,
            Number::OobInline => settings.oob_inline = is_on,
            Number::NoDelay => settings.no_delay = is_on,
            Number::V6Only => settings.v6_only = is_on,
            Number::KeepIdle => match u32::try_from(value) {
                Ok(seconds @ 1..) => settings.keep_idle = Some(seconds),
                _ => return Err(Errno::EINVAL.into()),
            },
            _ => return sizes.set(option, value).map(drop),
        }
        Ok(())
    }

    /// An option's value.
    pub(crate) fn number(&self, option: Number) -> i32 {
        let state = self.state.lock();
        let settings = &state.settings;
        match option {
            Number::ReuseAddress => settings.reuse_address.into(),
            Number::KeepAlive => settings.keep_alive.into(),
            Number::KeepIdle => {
                let seconds = settings.keep_idle.unwrap_or(DEFAULT_KEEP_IDLE);
                i32::try_from(seconds).unwrap_or(i32::MAX)
            }
            Number::OobInline => settings.oob_inline.into(),
            Number::NoDelay => settings.no_delay.into(),
            Number::V6Only => settings.v6_only.into(),
            _ => state.sizes.get(option).unwrap_or_default(),
        }
    }

    /// Sets a timeout; `None` means no limit, or turns SO_LINGER off.
    pub(crate) fn set_time(&self, option: Time, time: Option<Duration>) {
        let settings = &mut self.state.lock().settings;
        match option {
            Time::Linger => settings.linger = time,
            Time::Receive => settings.receive_timeout = time.filter(|time| !time.is_zero()),
            Time::Send => settings.send_timeout = time.filter(|time| !time.is_zero()),
        }
    }

    /// A timeout.
    pub(crate) fn time(&self, option: Time) -> Option<Duration> {
        let settings = &self.state.lock().settings;
        match option {
            Time::Linger => settings.linger,
            Time::Receive => settings.receive_timeout,
            Time::Send => settings.send_timeout,
        }
    }

    /// SO_ERROR: takes the error of a broken connection or a failed non-blocking connect.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        let mut state = self.state.lock();
        self.progress_locked(&mut state, true);
        let broken = match &mut state.phase {
            Phase::Stream(stream) => stream.take_error(),
            _ => None,
        };
        broken.or_else(|| state.error.take())
    }

    /// Whether the socket listens.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Listening(_))
    }

    /// FIONREAD: the number of unread bytes.
    pub(crate) fn unread(&self) -> usize {
        let mut state = self.state.lock();
        self.progress_locked(&mut state, true);
        match &state.phase {
            Phase::Stream(stream) => stream.unread(),
            _ => 0,
        }
    }
}

/// Linux's default for TCP.
const DEFAULT_KEEP_IDLE: u32 = 7200;

impl Probe for Socket {
    /// `None` if the program has turned keepalive off, or the connection is over.
    fn send_keepalive_probe(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        self.progress_locked(&mut state, true);
        let every = state.settings.keepalive_interval()?;
        match &mut state.phase {
            Phase::Stream(stream) => stream.send_keepalive_probe().then_some(every),
            Phase::Closed | Phase::Failed(_) => None,
            _ => Some(every),
        }
    }
}
