//! The agent.

use crate::{
    Acceptance, CmError, Config, ConnectRequest, ConnectionId, DatagramAcceptance, DatagramRequest,
    Event, Instant, ListenerId, MAD_LEN, Path, RejectReason, ServiceId,
};
use std::net::IpAddr;

/// Communication management of one port: all connections that its owner makes or takes.
#[derive(Debug)]
pub struct Agent {
    config: Config,
}

impl Agent {
    /// An agent without connections.
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Takes requests for `service`, sent to `local`, or to any address if there is none (a
    /// listener with the address takes precedence). At most `backlog` requests at a time wait
    /// for their owner to take notice ([`Agent::taken`], [`Agent::accept`],
    /// [`Agent::reject`]); further ones are dropped, and the peers ask again.
    ///
    /// # Errors
    /// Somebody listens to the same service at the same address.
    pub fn listen(
        &mut self,
        service: ServiceId,
        local: Option<IpAddr>,
        backlog: usize,
    ) -> Result<ListenerId, CmError> {
        let _ = (service, local, backlog);
        Ok(ListenerId(0))
    }

    /// Takes no more requests for this listener, and rejects those that it did not answer.
    pub fn stop_listening(&mut self, now: Instant, listener: ListenerId) {
        let _ = (now, listener);
    }

    /// The owner has taken notice of a request, and will answer it sooner or later: it does not
    /// count against the backlog any more.
    pub fn taken(&mut self, connection: ConnectionId) {
        let _ = connection;
    }

    /// Active side: asks for a connection (REQ). The answer is [`Event::Replied`],
    /// [`Event::Rejected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    /// Private data or a number does not fit, the path is of two families, or there are too
    /// many connections.
    pub fn connect(
        &mut self,
        now: Instant,
        path: Path,
        request: &ConnectRequest,
    ) -> Result<ConnectionId, CmError> {
        let _ = (now, path, request);
        Ok(ConnectionId(u32::from(self.config.part.number()) << 25 | 1))
    }

    /// Asks for the QP of a datagram service (SIDR_REQ). The answer is
    /// [`Event::DatagramReplied`], [`Event::DatagramRejected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    /// As of [`Agent::connect`].
    pub fn resolve_datagram(
        &mut self,
        now: Instant,
        path: Path,
        request: &DatagramRequest,
    ) -> Result<ConnectionId, CmError> {
        let _ = (now, path, request);
        Ok(ConnectionId(u32::from(self.config.part.number()) << 25 | 1))
    }

    /// Active side, after [`Event::Replied`]: the QP is ready to send (RTU). The connection is
    /// established then; there is no event that says so.
    ///
    /// # Errors
    /// The connection is not known or not in that state; more than 224 bytes of private data.
    pub fn ready(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        private: &[u8],
    ) -> Result<(), CmError> {
        let _ = (now, connection, private);
        Ok(())
    }

    /// Passive side, after [`Event::Requested`]: accepts (REP). The QP must be ready to
    /// receive. Then comes [`Event::Established`], [`Event::Rejected`] or
    /// [`Event::Unreachable`].
    ///
    /// # Errors
    /// The connection is not known or not in that state; private data or a number does not fit.
    pub fn accept(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        acceptance: &Acceptance,
    ) -> Result<(), CmError> {
        let _ = (now, connection, acceptance);
        Ok(())
    }

    /// Passive side, after [`Event::DatagramRequested`]: tells the QP (SIDR_REP). This is the
    /// end of the request; no event follows.
    ///
    /// # Errors
    /// The request is not known or was answered already; more than 136 bytes of private data.
    pub fn accept_datagram(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        acceptance: &DatagramAcceptance,
    ) -> Result<(), CmError> {
        let _ = (now, connection, acceptance);
        Ok(())
    }

    /// Refuses what [`Event::Requested`], [`Event::DatagramRequested`] or [`Event::Replied`]
    /// brought (REJ; for datagrams SIDR_REP with the status that fits best). This is the end of
    /// it; no event follows.
    ///
    /// # Errors
    /// The connection is not known or not in that state; more than 148 bytes of private data,
    /// 136 for datagrams.
    pub fn reject(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        reason: RejectReason,
        private: &[u8],
    ) -> Result<(), CmError> {
        let _ = (now, connection, reason, private);
        Ok(())
    }

    /// Passive side, after [`Agent::accept`]: the peer's first data came before its RTU (in
    /// verbs, the asynchronous event "communication established"). Gives
    /// [`Event::Established`], unless there was one.
    pub fn established(&mut self, now: Instant, connection: ConnectionId) {
        let _ = (now, connection);
    }

    /// Ends an established connection: DREQ, after which [`Event::Disconnected`] comes; or, after
    /// [`Event::DisconnectRequested`], DREP, and no [`Event::Disconnected`]. Either way
    /// [`Event::TimeWaitOver`] is the last.
    ///
    /// # Errors
    /// The connection is not known or not in that state; more than 220 bytes of private data
    /// (224 after [`Event::DisconnectRequested`]).
    pub fn disconnect(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        private: &[u8],
    ) -> Result<(), CmError> {
        let _ = (now, connection, private);
        Ok(())
    }

    /// The owner wants to hear no more of the connection or lookup, whatever its state. The peer
    /// is told what it has to know (REJ, DREQ, DREP), and no event about it follows.
    pub fn forget(&mut self, now: Instant, connection: ConnectionId) {
        let _ = (now, connection);
    }

    /// Takes a MAD that came to QP1, whatever it is.
    pub fn receive(&mut self, now: Instant, path: Path, mad: &[u8]) {
        let _ = (now, path, mad);
    }

    /// Does what is due: call it when [`Agent::next_timeout`] has come.
    pub fn handle_timeouts(&mut self, now: Instant) {
        let _ = now;
    }

    /// When something is due next.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next MAD to send from QP1, with the way that it takes. Ask after each call until there
    /// is none.
    pub fn poll_transmit(&mut self) -> Option<(Path, [u8; MAD_LEN])> {
        None
    }

    /// The next event. Ask after each call until there is none.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
