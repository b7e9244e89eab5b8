//! Connections as the connection manager knows them.

use super::routes::Events;
use super::{ConnectionError, ConnectionManager};
use crate::error::OpenError;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_cm::{ConnectionId, Event, Path};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// A connection as the connection manager knows it, without the QP. Dropping it notifies the peer.
pub(super) struct CmConnection {
    pub(super) manager: Arc<ConnectionManager>,
    pub(super) id: ConnectionId,
    pub(super) path: Path,
    pub(super) events: Events,
}

impl CmConnection {
    pub(super) fn try_next(&self) -> Result<Option<Event>, ConnectionError> {
        match self.events.poll() {
            None if self.events.is_over() => Err(ConnectionError::Ended),
            None => Ok(None),
            Some(Event::Rejected {
                reason, private, ..
            }) => Err(ConnectionError::Rejected { reason, private }),
            Some(Event::Unreachable { .. }) => Err(ConnectionError::Unreachable(self.path.remote)),
            Some(event) => Ok(Some(event)),
        }
    }

    pub(super) fn wait(&self, timeout: Duration) -> Option<Event> {
        let context = &self.manager.context;
        let waited = self.events.wait(timeout, || context.hand_over());
        waited.ok().flatten()
    }

    /// Whether all events have been taken, and no other follows.
    pub(super) fn is_over(&self) -> bool {
        self.events.is_over()
    }

    pub(super) fn wait_until_readable(&self) {
        self.manager.context.hand_over();
        let mut fds = [PollFd::new(self.events.as_fd(), PollFlags::POLLIN)];
        // After an error, the caller looks for an event and waits again.
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}

impl Drop for CmConnection {
    fn drop(&mut self) {
        let Self { manager, id, .. } = self;
        manager.with(|agent, now| agent.forget(now, *id));
        manager.core.routes().forget_connection(*id);
    }
}

debug_fields!(CmConnection id path);

/// The error if the system has no descriptor left.
pub(super) fn no_descriptor(source: std::io::Error) -> ConnectionError {
    OpenError::system("making a timerfd")(source).into()
}
