//! Connections that are being established.

use super::routes::Events;
use super::{Connection, ConnectionError, ConnectionManager};
use crate::qp::{ConnectOptions, QueuePair};
use roce_cm::{ConnectionId, Event, Path, PrivateBytes};
use std::os::fd::{AsFd, BorrowedFd};
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
    /// The next event, if there is one.
    fn try_next(&self) -> Result<Option<Event>, ConnectionError> {
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

    /// Waits at most `timeout` for an event.
    pub(super) fn wait(&self, timeout: Duration) -> Option<Event> {
        let context = &self.manager.context;
        let waited = self.events.wait(timeout, || context.hand_over());
        waited.ok().flatten()
    }

    /// Whether all events have been taken, and no other follows.
    pub(super) fn is_over(&self) -> bool {
        self.events.is_over()
    }

    /// Waits until the descriptor of the events is readable.
    fn wait_until_readable(&self) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
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

impl std::fmt::Debug for CmConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CmConnection")
            .field("id", &self.id)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A connection that one end has asked for and the other has not confirmed yet: for programs that
/// wait for several things at once. [`Connection::start`] and
/// [`Incoming::start_accept`](super::Incoming::start_accept) return it.
///
/// Its descriptor ([`AsFd`]) is readable when [`Connecting::check`] has something to do. Dropping
/// it gives the connection up.
#[derive(Debug)]
pub struct Connecting {
    cm: CmConnection,
    qp: Arc<QueuePair>,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// It has asked, with these options, and waits for the answer.
    Active(ConnectOptions),
    /// It has accepted, and waits until the peer is ready. These private data came with the
    /// request.
    Passive(PrivateBytes),
}

/// How far a connection is.
#[derive(Debug)]
pub enum Establishing {
    /// The peer has not answered yet.
    Pending(Connecting),
    /// Both ends are ready.
    Established(Connection),
}

impl Connecting {
    pub(super) fn active(cm: CmConnection, qp: Arc<QueuePair>, options: ConnectOptions) -> Self {
        let role = Role::Active(options);
        Self { cm, qp, role }
    }

    pub(super) fn passive(cm: CmConnection, qp: Arc<QueuePair>, private: PrivateBytes) -> Self {
        let role = Role::Passive(private);
        Self { cm, qp, role }
    }

    /// Its QP. That of an end that has accepted may send already.
    pub fn qp(&self) -> &QueuePair {
        &self.qp
    }

    /// Looks whether the peer has answered, without waiting.
    ///
    /// # Errors
    /// If the peer refuses or does not answer, or the QP can't be connected. The connection is then
    /// over.
    pub fn check(self) -> Result<Establishing, ConnectionError> {
        match self.cm.try_next()? {
            None => Ok(Establishing::Pending(self)),
            Some(event) => self.finish(event).map(Establishing::Established),
        }
    }

    /// Waits until the peer has answered. The manager gives up requests that nobody answers, so it
    /// does not wait for ever.
    ///
    /// # Errors
    /// As for [`Connecting::check`].
    pub fn wait(self) -> Result<Connection, ConnectionError> {
        let mut pending = self;
        loop {
            match pending.check()? {
                Establishing::Established(connection) => return Ok(connection),
                Establishing::Pending(still) => pending = still,
            }
            pending.cm.wait_until_readable();
        }
    }

    fn finish(self, event: Event) -> Result<Connection, ConnectionError> {
        let Self { cm, qp, role } = self;
        let private = match (role, event) {
            (Role::Active(options), Event::Replied { reply, .. }) => {
                qp.connect_with(&cm.path, &reply, &options)?;
                cm.manager.with(|agent, now| agent.ready(now, cm.id, &[]))?;
                reply.private
            }
            (Role::Passive(private), Event::Established { .. }) => private,
            _ => return Err(ConnectionError::Ended),
        };
        Ok(Connection::new(cm, qp, private))
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cm.events.as_fd()
    }
}
