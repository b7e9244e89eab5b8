//! The life of an ID.

use super::{Attached, Channel, Event, Id, IdDevice, IdError, Inner, Negotiated, State};
use crate::events::Unacknowledged;
use parking_lot::Mutex;
use roce_cm::{Agent, ConnectionId, Instant, PortSpace};
use roce_stack::QpKind;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The largest code of a local ACK timeout.
const MAX_TIMEOUT: u8 = 31;

impl State {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Idle => "is new",
            Self::Bound => "is bound to a local address",
            Self::AddrResolved => "has its peer's address resolved (rdma_resolve_addr)",
            Self::RouteResolved => "has its route resolved (rdma_resolve_route)",
            Self::Listening => "listens",
            Self::Connecting => "waits for the peer's answer",
            Self::ReplyReceived => "has the peer's reply",
            Self::RequestReceived => "has a peer's request (RDMA_CM_EVENT_CONNECT_REQUEST)",
            Self::Connected => "is connected",
            Self::Closed => "has no connection any more",
        }
    }
}

impl Id {
    /// A new ID for a QP of `kind`.
    ///
    /// # Errors
    /// If the system refuses random bytes.
    pub fn new(
        channel: Arc<Channel>,
        space: PortSpace,
        kind: QpKind,
    ) -> Result<Arc<Self>, IdError> {
        Ok(Arc::new(Self {
            attached: Mutex::new(Attached {
                channel,
                is_gone: false,
            }),
            unacknowledged: Arc::default(),
            space,
            kind,
            is_v6_only: AtomicBool::new(false),
            awaits_accept: AtomicBool::new(false),
            owner: OnceLock::new(),
            inner: Mutex::new(Inner {
                state: State::Idle,
                device: None,
                local: None,
                remote: None,
                claim: None,
                listeners: Vec::new(),
                connection: None,
                negotiated: Negotiated::default(),
                psn: random_psn()?,
                ack_timeout: None,
                groups: Vec::new(),
            }),
        }))
    }

    /// The port space.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// The kind of its QP.
    pub fn kind(&self) -> QpKind {
        self.kind
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.kind == QpKind::Ud
    }

    /// The program's object that the ID belongs to, if the program has named one and it still exists.
    pub fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.owner.get()?.upgrade()
    }

    /// Names the program's object that the ID belongs to. Only the first call counts.
    pub fn set_owner(&self, owner: Weak<dyn Any + Send + Sync>) {
        let _ = self.owner.set(owner);
    }

    /// How far it is.
    pub fn state(&self) -> State {
        self.inner.lock().state
    }

    /// Its own address, and the peer's, as far as they are known.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let inner = self.inner.lock();
        (inner.local, inner.remote)
    }

    /// Whether a peer has requested its connection.
    pub fn is_passive(&self) -> bool {
        let inner = self.inner.lock();
        inner.connection.is_some() && inner.claim.is_none()
    }

    /// Its device.
    ///
    /// # Errors
    /// If it has none yet.
    pub fn device(&self) -> Result<Arc<IdDevice>, IdError> {
        self.inner.lock().device().cloned()
    }

    /// The channel of its events.
    pub fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.attached.lock().channel)
    }

    /// The events that the program has taken and not acknowledged. Before it destroys the ID, or moves
    /// it to another channel, it waits until there are none.
    pub fn unacknowledged(&self) -> &Arc<Unacknowledged> {
        &self.unacknowledged
    }

    /// The traffic class of its packets.
    pub fn set_traffic_class(&self, traffic_class: u8) {
        self.inner.lock().negotiated.options.traffic_class = traffic_class;
    }

    /// The code of its local ACK timeout.
    ///
    /// # Errors
    /// If the code is above 31.
    pub fn set_ack_timeout(&self, code: u8) -> Result<(), IdError> {
        if code > MAX_TIMEOUT {
            return IdError::invalid(format!("the ACK timeout is {code}, but must be at most 31"));
        }
        self.inner.lock().ack_timeout = Some(code);
        Ok(())
    }

    /// Whether `::` means IPv6 addresses only, and not IPv4 addresses too.
    ///
    /// # Errors
    /// If the ID is bound already.
    pub fn set_v6_only(&self, is_v6_only: bool) -> Result<(), IdError> {
        self.inner.lock().check(&[State::Idle])?;
        self.is_v6_only.store(is_v6_only, Ordering::Relaxed);
        Ok(())
    }

    /// Delivers an event of this ID, or of a connection that arrived at it. Returns whether the ID still
    /// exists.
    pub(super) fn push_event(&self, event: Event) -> bool {
        // Holding the lock prevents an event from reaching the channel after `move_to` or `leave`.
        let attached = self.attached.lock();
        if !attached.is_gone {
            attached.channel.push(event);
        }
        !attached.is_gone
    }

    /// Ends the ID's events. Returns those that the program has not taken.
    fn leave(&self) -> Vec<Event> {
        let mut attached = self.attached.lock();
        attached.is_gone = true;
        self.withdraw_from(&attached.channel)
    }

    /// Removes the ID's events.
    fn withdraw_from(&self, channel: &Channel) -> Vec<Event> {
        channel.withdraw(|event| std::ptr::eq(&*event.id, self))
    }

    /// Moves the ID to another channel, with its queued events.
    pub fn move_to(&self, new: Arc<Channel>) {
        let mut attached = self.attached.lock();
        for event in self.withdraw_from(&attached.channel) {
            new.push(event);
        }
        attached.channel = new;
    }

    /// Ends the ID's connection, and its events. Requests that the program has not taken from the
    /// channel are refused.
    pub fn destroy(&self) {
        self.detach();
        for event in self.leave() {
            if let Some(child) = event.child {
                child.detach();
                child.leave();
            }
        }
    }

    /// Detaches the ID from the connection manager, which delivers no more events for it.
    fn detach(&self) {
        let mut inner = self.inner.lock();
        let connection = inner.connection.take();
        if let (Some(device), Some(connection)) = (&inner.device, connection) {
            device
                .manager
                .with(|agent, now| agent.forget(now, connection));
            device.connections.remove(&connection);
        }
        inner.stop_listening();
        inner.claim = None;
        inner.state = State::Closed;
    }
}

impl Inner {
    /// # Errors
    /// [`IdError::State`] unless the ID is in one of these states.
    pub(super) fn check(&self, needed: &'static [State]) -> Result<(), IdError> {
        let is = self.state;
        match needed.contains(&is) {
            true => Ok(()),
            false => Err(IdError::State { is, needed }),
        }
    }

    pub(super) fn device(&self) -> Result<&Arc<IdDevice>, IdError> {
        self.device.as_ref().ok_or(IdError::NoDevice)
    }

    /// Calls the agent of the connection manager about the ID's connection.
    pub(super) fn with_agent<R>(
        &self,
        call: impl FnOnce(&mut Agent, Instant, ConnectionId) -> R,
    ) -> Result<R, IdError> {
        let connection = self.connection.ok_or(IdError::NoConnection)?;
        let manager = &self.device()?.manager;
        Ok(manager.with(|agent, now| call(agent, now, connection)))
    }

    /// The addresses of both ends.
    pub(super) fn ends(&self) -> Result<(SocketAddr, SocketAddr), IdError> {
        self.local.zip(self.remote).ok_or(IdError::NoPath)
    }

    /// Stops listening on all devices.
    pub(super) fn stop_listening(&mut self) {
        for (device, listener) in std::mem::take(&mut self.listeners) {
            device.manager.stop_listening(listener);
            device.listeners.remove(&listener);
        }
    }
}

/// 24 random bits.
pub(super) fn random_psn() -> Result<u32, IdError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| IdError::Random(error.to_string()))?;
    Ok(u32::from_ne_bytes(bytes) >> 8)
}
