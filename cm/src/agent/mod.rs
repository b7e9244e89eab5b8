//! The agent: its public interface, and the modules that implement it.

mod active;
mod check;
mod gone;
mod held;
mod listeners;
mod lookup;
mod passive;
mod pending;
mod refuse;
mod release;
mod stale;
mod state;
mod table;
mod timing;

pub use pending::{Pending, PendingStep};

use crate::{
    Acceptance, Addresses, CmError, Config, ConnectRequest, ConnectionId, Counters,
    DatagramAcceptance, DatagramRequest, Duration, Event, Instant, ListenerId, MAD_LEN, Path, Qpn,
    QpnRange, RejectReason, ServiceId, ServiceType,
};
use check::Checks;
use held::Held;
use listeners::Listeners;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_wire::cm::{CmMad, CmMessage};
use state::{Connection, State};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use table::Table;

/// The maximum number of connections and lookups of datagram QPs (SIDR) that an agent has at a
/// time, including ended ones that wait for late packets.
pub(crate) const MAX_CONNECTIONS: usize = 1 << 16;
/// The maximum number of requests from peers that wait for the owner's answer.
pub(crate) const MAX_UNANSWERED: usize = 1024;
/// The maximum number of finished requests that are kept to answer retransmissions. Without the
/// limit, strangers whose requests are refused could exhaust the memory.
const MAX_FINISHED: usize = 4096;
/// The maximum number of MADs that wait to be sent. Further MADs are dropped, as a network may drop
/// them.
const MAX_OUTBOX: usize = 4096;
/// The number of bits of a communication ID below the part's number.
const ID_BITS: u32 = 25;

/// Communication management of one port. The agent handles all connections that its owner requests
/// or accepts.
///
/// Call any method, then [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event) until they return `None`. Call
/// [`handle_timeouts`](Self::handle_timeouts) when [`next_timeout`](Self::next_timeout) has come.
/// Time must not go backwards. Messages from the network can't make an agent panic, nor use more
/// than a bounded amount of memory.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    rng: ChaCha20Rng,
    listeners: Listeners,
    table: Table,
    held: Held,
    checks: Checks,
    new_peers: BTreeSet<(IpAddr, QpnRange)>,
    outbox: VecDeque<(Path, [u8; MAD_LEN])>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Agent {
    /// An agent without connections.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            rng: ChaCha20Rng::from_seed(config.seed),
            listeners: Listeners::default(),
            table: Table::default(),
            held: Held::default(),
            checks: Checks::default(),
            new_peers: BTreeSet::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Draws communication IDs from `part` from now on. Existing IDs stay.
    pub fn draw_ids_from(&mut self, part: QpnRange) {
        self.config.part = part;
    }

    /// Listens for requests for `service` that are sent to `local`: one address, all addresses of a
    /// family, or all addresses (`None` converts to this). If several listeners match a request,
    /// the one for the fewest addresses gets it. At most `backlog` requests at a time wait
    /// until the owner calls [`Agent::leave_backlog`], [`Agent::accept`],
    /// [`Agent::accept_datagram`] or [`Agent::reject`]. Further requests are dropped, and the peers
    /// retransmit them. Requests for the service that arrived up to a second before the listener
    /// are delivered now.
    ///
    /// # Errors
    /// If this agent already listens to the same service at the same addresses.
    pub fn listen(
        &mut self,
        now: Instant,
        service: ServiceId,
        local: impl Into<Addresses>,
        backlog: usize,
    ) -> Result<ListenerId, CmError> {
        let local = local.into();
        let listener = self.listeners.add(service, local, backlog)?;
        self.release_held(now, service, local);
        Ok(listener)
    }

    /// Removes the listener, and rejects the requests in its backlog. Requests that left the
    /// backlog stay with the owner.
    pub fn stop_listening(&mut self, now: Instant, listener: ListenerId) {
        for id in self.table.of_listener(listener) {
            self.disown(now, id);
        }
        self.listeners.remove(listener);
    }

    /// Reports that the owner has noticed a request and will answer it later. The request no longer
    /// counts against its listener's backlog.
    pub fn leave_backlog(&mut self, connection: ConnectionId) {
        let listener = self
            .table
            .get_mut(connection)
            .and_then(|c| c.in_backlog_of.take());
        if let Some(listener) = listener {
            self.listeners.release_slot(listener);
        }
    }

    /// Active side: requests a connection (REQ). The result is [`Event::Replied`],
    /// [`Event::Rejected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    /// If private data or a number does not fit, the path has two address families, or there are
    /// too many connections.
    // rule: 12.9-req-rep-rtu
    pub fn connect(
        &mut self,
        now: Instant,
        path: Path,
        request: &ConnectRequest,
    ) -> Result<ConnectionId, CmError> {
        self.send_req(now, path, request)
    }

    /// Requests the QP of a datagram service (SIDR_REQ). The result is [`Event::DatagramReplied`],
    /// [`Event::DatagramRejected`] or [`Event::Unreachable`].
    ///
    /// # Errors
    /// As for [`Agent::connect`].
    pub fn resolve_datagram(
        &mut self,
        now: Instant,
        path: Path,
        request: &DatagramRequest,
    ) -> Result<ConnectionId, CmError> {
        self.send_sidr_req(now, path, request)
    }

    /// Active side, after [`Event::Replied`]: the QP is ready to send (RTU). This establishes the
    /// connection; no event follows.
    ///
    /// # Errors
    /// If the connection is not known or not in that state, or there are more than 224 bytes of
    /// private data.
    pub fn ready(
        &mut self,
        _now: Instant,
        connection: ConnectionId,
        private: &[u8],
    ) -> Result<(), CmError> {
        self.send_rtu(connection, private)
    }

    /// Passive side, after [`Event::Requested`]: accepts the connection (REP). The QP must be ready
    /// to receive. The result is [`Event::Established`], [`Event::Rejected`] or
    /// [`Event::Unreachable`].
    ///
    /// # Errors
    /// If the connection is not known or not in that state, or private data or a number does not
    /// fit.
    pub fn accept(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        acceptance: &Acceptance,
    ) -> Result<(), CmError> {
        self.send_rep(now, connection, acceptance)
    }

    /// Passive side, after [`Event::DatagramRequested`]: answers with the QP (SIDR_REP). This
    /// completes the request; no event follows.
    ///
    /// # Errors
    /// If the request is not known or already answered, or there are more than 136 bytes of private
    /// data.
    pub fn accept_datagram(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        acceptance: &DatagramAcceptance,
    ) -> Result<(), CmError> {
        self.accept_lookup(now, connection, acceptance)
    }

    /// Refuses an [`Event::Requested`], [`Event::DatagramRequested`] or [`Event::Replied`] (REJ;
    /// for datagrams SIDR_REP with the closest status). This ends the request; no event follows.
    ///
    /// # Errors
    /// If the connection is not known or not in that state, or there are more than 148 bytes of
    /// private data (136 for datagrams).
    pub fn reject(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        reason: RejectReason,
        private: &[u8],
    ) -> Result<(), CmError> {
        self.refuse_by_owner(now, connection, reason, private)
    }

    /// Passive side, after [`Agent::accept`]: reports that the peer's first data arrived before its
    /// RTU (in verbs, the asynchronous event "communication established"). The result is
    /// [`Event::Established`]. Does nothing if the connection is already established.
    pub fn established(&mut self, _now: Instant, connection: ConnectionId) {
        let sent = self.table.get(connection).map(|c| &c.state);
        // rule: 12.9-data-before-rtu
        if let Some(State::RepSent(_)) = sent {
            self.establish(connection, &[]);
        }
    }

    /// Ends an established connection with a DREQ; [`Event::Disconnected`] follows. After
    /// [`Event::DisconnectRequested`] it sends a DREP instead, without [`Event::Disconnected`].
    /// Either way [`Event::TimeWaitOver`] is the last event.
    ///
    /// The peer's agent does not answer a DREQ by itself: **its owner has to call this, too.**
    /// Until then, this agent retransmits the DREQ, up to [`Config::max_retries`] times (of the
    /// active side's configuration). After the last timeout, it considers the connection ended
    /// without an answer. This takes 26 s if the peer also uses this crate, with default settings,
    /// and 77 s if it is Linux. An owner that does not want to wait calls [`Agent::forget`]
    /// instead.
    ///
    /// # Errors
    /// If the connection is not known or not in that state, or there are more than 220 bytes of
    /// private data (224 after [`Event::DisconnectRequested`]).
    pub fn disconnect(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        private: &[u8],
    ) -> Result<(), CmError> {
        self.end(now, connection, private)
    }

    /// Drops a connection or lookup in any state; no event about it follows. If the peer still
    /// considers it open, the agent tells the peer (REJ, DREQ, DREP or SIDR_REP). This is
    /// [`Agent::disconnect`] for an owner that does not wait for the peer. The agent still
    /// retransmits the DREQ until the peer answers.
    pub fn forget(&mut self, now: Instant, connection: ConnectionId) {
        self.disown(now, connection);
    }

    /// Drops at most `limit` connections and lookups, as [`Agent::forget`] does. Returns true if
    /// fewer than `limit` were left to drop, so that none is left now.
    pub fn forget_some(&mut self, now: Instant, limit: usize) -> bool {
        let ids = self.table.owned(limit);
        for &id in &ids {
            self.disown(now, id);
        }
        ids.len() < limit
    }

    /// Reports that a remote process has ended, so that all connections with its QPs are over.
    /// `remote` is the process's address, and `part` is its part of the QPN space, as returned by
    /// [`Agent::poll_peer`]. For a connection that this side had accepted or made ready, the result
    /// is [`Event::Disconnected`], preceded by [`Event::Established`] if that was not yet
    /// delivered. For a connection that had not got that far, the result is [`Event::Rejected`]
    /// with the reason "timeout".
    pub fn peer_gone(&mut self, now: Instant, remote: IpAddr, part: QpnRange) {
        self.end_with_process(now, remote, part);
    }

    /// Reports that the host at the remote end of `path` has answered "port unreachable" to a check
    /// ([`Agent::poll_check`]). The agent verifies the report before it ends a connection. A request
    /// that has no answer after three reports in 1.6 s ends as if a peer had no listener for it, but
    /// without private data.
    pub fn port_unreachable(&mut self, now: Instant, path: Path) {
        self.on_port_unreachable(now, path);
    }

    /// Reports that this host can't deliver packets to the remote end of `path`: it has no route, or
    /// nobody there answers ARP or neighbour discovery. Requests that have no answer end with
    /// [`Event::Unreachable`]. Connections stay.
    pub fn host_unreachable(&mut self, now: Instant, path: Path) {
        self.end_requests_on_path(now, path);
    }

    /// Handles a MAD that arrived at QP1. The MAD may contain any bytes.
    pub fn receive(&mut self, now: Instant, path: Path, mad: &[u8]) {
        // rule: 13.4.2-dropped
        let Ok(mad) = CmMad::parse(mad) else {
            self.counters.unknown += 1;
            return;
        };
        if let CmMessage::Drep(drep) = &mad.message
            && self.is_probe_answer(path, drep.remote_id)
        {
            self.counters.probe_answers += 1;
            return self.clear_suspicion(now, path);
        }
        self.clear_suspicion(now, path);
        let transaction = mad.transaction;
        match &mad.message {
            CmMessage::Req(m) => self.on_req(now, path, transaction, m),
            CmMessage::Mra(m) => self.on_mra(now, path, m),
            CmMessage::Rej(m) => self.on_rej(now, path, m),
            CmMessage::Rep(m) => self.on_rep(now, path, transaction, m),
            CmMessage::Rtu(m) => self.on_rtu(now, path, m),
            CmMessage::Dreq(m) => self.on_dreq(now, path, transaction, m),
            CmMessage::Drep(m) => self.on_drep(now, path, m),
            CmMessage::SidrReq(m) => self.on_sidr_req(now, path, transaction, m),
            CmMessage::SidrRep(m) => self.on_sidr_rep(path, m),
        }
    }

    /// Handles all deadlines up to `now`. Call this method at the time that [`Agent::next_timeout`]
    /// returns.
    pub fn handle_timeouts(&mut self, now: Instant) {
        while let Some(id) = self.table.expired(now) {
            self.expire(now, id);
        }
        self.refuse_expired_held(now);
        self.handle_checks(now);
    }

    /// The services of requests that found no listener and were held for up to a second, once that
    /// time is over, with the addresses that the requests were sent to.
    /// [`Agent::handle_timeouts`] refuses these requests. If another process listens to such a
    /// service at such an address by now, call [`Agent::drop_held`] first.
    pub fn expired_held(&self, now: Instant) -> Vec<(IpAddr, ServiceId)> {
        self.expired_held_services(now)
    }

    /// Drops the held requests for `service` that were sent to `local`, instead of refusing them.
    /// The retransmitted requests reach the process that listens to the service.
    pub fn drop_held(&mut self, local: IpAddr, service: ServiceId) {
        self.drop_held_for_service(local, service);
    }

    /// The next deadline.
    pub fn next_timeout(&self) -> Option<Instant> {
        let deadlines = [
            self.table.next_deadline(),
            self.held.next_deadline(),
            self.checks.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The next MAD to send from QP1, with its path. After each other call, call this method until
    /// it returns `None`.
    pub fn poll_transmit(&mut self) -> Option<(Path, [u8; MAD_LEN])> {
        self.outbox.pop_front()
    }

    /// The next event. After each other call, call this method until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next remote process with which a connection has begun, as its address and its part of
    /// the QPN space. An owner that learns that the process has ended calls [`Agent::peer_gone`].
    /// After each other call, call this method until it returns `None`.
    pub fn poll_peer(&mut self) -> Option<(IpAddr, QpnRange)> {
        self.new_peers.pop_first()
    }

    /// A path to check, if [`Config::check_every`] is set. The owner sends a packet that
    /// every host drops to UDP port 4791 of the remote end, from another port of the local end. If the host answers that
    /// the port is unreachable, the owner calls [`Agent::port_unreachable`]. After each other call,
    /// call this method until it returns `None`.
    pub fn poll_check(&mut self) -> Option<Path> {
        self.checks.poll()
    }

    /// Whether [`Agent::poll_peer`] or [`Agent::poll_check`] would return something.
    pub fn has_peer_or_check(&self) -> bool {
        !self.new_peers.is_empty() || !self.checks.is_empty()
    }

    /// The counters since the agent was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of connections and lookups in the table, including ended ones.
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// The connections and lookups that wait for the peer or for the owner, in no particular order.
    pub fn pending(&self) -> impl Iterator<Item = Pending> {
        self.table.all().filter_map(Pending::of)
    }

    /// The number of requests that wait for a listener.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

impl Agent {
    fn known(&self, id: ConnectionId) -> Result<&Connection, CmError> {
        self.table.get(id).ok_or(CmError::UnknownConnection)
    }

    /// A connection with an unused ID, not in the table yet.
    fn new_connection(
        &mut self,
        path: Path,
        answer_timeout: Duration,
    ) -> Result<Connection, CmError> {
        if path.local.is_ipv4() != path.remote.is_ipv4() {
            return Err(CmError::MixedFamilies);
        }
        if self.table.len() >= MAX_CONNECTIONS {
            let limit = MAX_CONNECTIONS;
            return Err(CmError::TooManyConnections { limit });
        }
        Ok(Connection {
            id: self.draw_unused_id(),
            path,
            remote_id: None,
            transaction: self.rng.next_u64(),
            local_qpn: Qpn::QP0,
            remote_qpn: None,
            service: ServiceId(0),
            service_type: ServiceType::Rc,
            lookup: false,
            owned: true,
            in_backlog_of: None,
            answer_timeout,
            max_retries: self.config.max_retries,
            probes: 0,
            stale_answers: 0,
            state: State::Finished(None),
            deadline: None,
        })
    }

    /// A random ID in this agent's part that is not in use, and was not in use a short while ago.
    /// There are few such IDs, so the first few draws find one.
    // rule: 12.9-random-id
    fn draw_unused_id(&mut self) -> ConnectionId {
        let part = u32::from(self.config.part.number()) << ID_BITS;
        loop {
            let id = ConnectionId(part | self.rng.next_u32() >> (32 - ID_BITS));
            if id.get() != 0 && !self.table.is_taken(id) {
                return id;
            }
        }
    }

    /// Queues an event, unless the owner has dropped the connection.
    fn queue_event(&mut self, id: ConnectionId, event: Event) {
        if self.table.get(id).is_some_and(|c| c.owned) {
            self.events.push_back(event);
        }
    }

    /// Sends the answer again, because the peer has retransmitted its message. The answer is kept
    /// for longer, since this copy may be lost, too: without the answer, a further REQ would be a new
    /// request.
    fn resend_answer(&mut self, now: Instant, id: ConnectionId, mad: [u8; MAD_LEN]) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let path = connection.path;
        if connection.state.is_finished() {
            self.table
                .set_deadline(id, Some(now + self.answer_retention()));
        }
        self.counters.duplicates += 1;
        self.send(path, mad);
    }

    /// Sends a message that belongs to no connection.
    fn send_message(&mut self, path: Path, transaction: u64, message: CmMessage<'_>) {
        let mad = CmMad {
            transaction,
            message,
        };
        self.send(path, mad.to_bytes());
    }

    fn send(&mut self, path: Path, mad: [u8; MAD_LEN]) {
        if self.outbox.len() >= MAX_OUTBOX {
            self.counters.outbox_full += 1;
            return;
        }
        self.outbox.push_back((path, mad));
    }
}
