//! Communication management of an open device, by a [`roce_cm::Agent`].
//!
//! ```text
//!  application ──with──► Agent ──MADs──► Nic: QP1 ──► port
//!                          ▲                │
//!      sink ◄──events── thread ◄───inbox─────┘
//! ```
//!
//! The thread sleeps until management datagrams arrive, a deadline passes, an event waits, or a
//! peer's process on this host ends. Only this thread calls the sink, and it holds no lock
//! meanwhile, so the sink may call anything.
//!
//! Locks are taken in this order: the routes, the agent, the engine, the inbox.

mod claim;
mod connecting;
mod connection;
mod core;
mod error;
mod inbox;
mod link;
mod listener;
mod peer_monitor;
mod routes;
mod thread;

pub use claim::{PortClaim, PortClaimError, PortTaken};
pub use connecting::{Connecting, Establishing};
pub use connection::Connection;
pub use error::{ConnectionError, ListenError};
pub use listener::{Incoming, Listener};

use self::core::Core;
use crate::context::{Context, ShownWaits};
use crate::error::{ConnectError, OpenError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;
use roce_cm::{Addresses, Agent, Event, Instant, ListenerId, PortSpace, ServiceId};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The program's handler of events.
pub type EventSink = Box<dyn Fn(Event) + Send + Sync>;

/// Connects QPs with peers by management datagrams on QP1 (IBTA 1.7, 12, and Annex A11).
/// [`Context::connection_manager`] returns it.
///
/// [`Listener`] and [`Connection`] use it, and are what most programs need. A program that controls
/// each step itself calls the manager's [`Agent`] through [`ConnectionManager::with`], receives
/// events in a sink, and connects its QPs with
/// [`QueuePair::connect_with`](crate::QueuePair::connect_with) and
/// [`QueuePair::accept_with`](crate::QueuePair::accept_with).
///
/// The manager keeps the device open. Dropping it waits until its thread has ended, unless that
/// thread drops it: do not drop it while holding a lock that the sink waits for. The manager sends
/// each peer of a remaining connection one message that the connection is over.
pub struct ConnectionManager {
    core: Arc<Core>,
    /// Shows the connections that are not established.
    waits: Option<ShownWaits>,
    context: Context,
    thread: Option<JoinHandle<()>>,
    listeners: Mutex<HashMap<ListenerId, (Addresses, ServiceId)>>,
}

impl Context {
    /// The connection manager of the device. The first call starts it, and it ends when the last
    /// reference to it is dropped. While it exists, the device takes management datagrams.
    ///
    /// # Errors
    /// If the operating system refuses random bytes, a descriptor, a thread, or to steer management
    /// datagrams to this process.
    pub fn connection_manager(&self) -> Result<Arc<ConnectionManager>, OpenError> {
        let mut slot = self.inner.connections.lock();
        if let Some(manager) = slot.upgrade().and_then(|weak| weak.downcast().ok()) {
            return Ok(manager);
        }
        let manager = Arc::new(ConnectionManager::start(self)?);
        let weak: Weak<ConnectionManager> = Arc::downgrade(&manager);
        *slot = weak;
        Ok(manager)
    }
}

impl ConnectionManager {
    fn start(context: &Context) -> Result<Self, OpenError> {
        let core = Arc::new(Core::open(context)?);
        let index = context.device().interface().index;
        let thread = thread::spawn(Arc::clone(&core), index).map_err(OpenError::system(
            "starting the connection manager's thread",
        ))?;
        Ok(Self {
            waits: Some(core.show_waits(context)),
            core,
            context: context.clone(),
            thread: Some(thread),
            listeners: Mutex::default(),
        })
    }

    /// The open device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Notifies the peers of all connections of `managers` that the connections are over, for a
    /// process that is about to end. The managers' threads send the messages, and this function
    /// waits at most `patience` for them. It takes no lock, so it is safe in a process that a
    /// signal handler ends. A manager that stays in use has no connections afterwards.
    pub fn leave(managers: &[Arc<Self>], patience: Duration) {
        for manager in managers {
            manager.core.inbox().notify_peers();
        }
        let end = std::time::Instant::now() + patience;
        for manager in managers {
            let mut fds = [PollFd::new(
                manager.core.inbox().peers_notified_fd(),
                PollFlags::POLLIN,
            )];
            let left = end.saturating_duration_since(std::time::Instant::now());
            // If polling fails or takes too long, the peers detect the end of the process by
            // themselves.
            let _ = poll(
                &mut fds,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
            );
        }
    }

    /// Sends events to `sink` from now on, the waiting ones first. Events of a [`Listener`] or
    /// [`Connection`] do not go to the sink. A manager that has listeners or connections and no
    /// sink drops other events.
    ///
    /// One thread calls `sink`, with one event at a time, in order, and holds no lock meanwhile, so
    /// `sink` may call [`ConnectionManager::with`]. It should not keep this manager alive.
    pub fn set_sink(&self, sink: EventSink) {
        self.core.set_sink(sink);
    }

    /// Calls `f` with the agent and the time that the agent's methods take, then sends the messages
    /// that the agent has for peers. The agent is locked meanwhile, so `f` should not block.
    pub fn with<R>(&self, f: impl FnOnce(&mut Agent, Instant) -> R) -> R {
        self.core.with(f)
    }

    /// Makes an address of the device usable: the device takes management datagrams to it, and it
    /// can be the local end of a path.
    ///
    /// # Errors
    /// If the device has no such address, or it can't be used.
    pub fn activate(&self, local: IpAddr) -> Result<(), ConnectError> {
        let index = self.context.gid_index(local)?;
        self.context.activate(index).map(drop)
    }

    /// Claims a port at an address of the device, at all addresses of a family, or at all addresses
    /// of the host; see [`PortClaim::take`].
    ///
    /// # Errors
    /// As for [`PortClaim::take`].
    pub fn claim_port(
        &self,
        space: PortSpace,
        local: impl Into<Addresses>,
        port: u16,
    ) -> Result<PortClaim, PortClaimError> {
        PortClaim::take(space, local, self.context.device().interface().index, port)
    }

    /// Takes requests for a claimed port, at the addresses of the device that the claim covers.
    /// These addresses become usable; those that the device gets later, too. From now on, requests that reach the host for this port come
    /// to this process, even if other processes share the address.
    ///
    /// A device can listen for a claim only once. `backlog` is that of [`Agent::listen`].
    ///
    /// # Errors
    /// If the agent refuses, no address can be used, or the system does not steer requests to
    /// this process.
    pub fn listen(&self, claim: &PortClaim, backlog: usize) -> Result<ListenerId, ListenError> {
        match claim.local() {
            Addresses::One(local) => self.activate(local)?,
            _ => {
                self.context.activate_all()?;
            }
        }
        let service = claim.service();
        let listener =
            self.with(|agent, now| agent.listen(now, service, claim.local(), backlog))?;
        self.listeners
            .lock()
            .insert(listener, (claim.local(), service));
        if let Err(error) = self.core.serve(claim.local(), service) {
            self.stop_listening(listener);
            return Err(ListenError::Steering(error));
        }
        Ok(listener)
    }

    /// Stops listening for `listener`, and rejects its unanswered requests. Does nothing if it has
    /// stopped already. The port stays claimed.
    pub fn stop_listening(&self, listener: ListenerId) {
        let Some((local, service)) = self.listeners.lock().remove(&listener) else {
            return;
        };
        self.with(|agent, now| agent.stop_listening(now, listener));
        self.core.stop_serving(local, service);
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        // Afterwards, no other thread holds the core but the manager's.
        drop(self.waits.take());
        self.core.forget_all();
        self.core.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // If the sink held the last reference, this is the manager's thread, which can't wait for
        // itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for ConnectionManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionManager")
            .field("device", &self.context.device().name())
            .finish_non_exhaustive()
    }
}
