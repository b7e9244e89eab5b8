//! All connections and lookups, indexed by each identifier that messages use.

use super::state::{Connection, State};
use crate::{ConnectionId, Instant, Path, Qpn, QpnRange};
use roce_stack::RecentlyFreed;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The peer's identifier of a connection or lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) lookup: bool,
    pub(super) id: u32,
}

/// All connections and lookups. The indexes are trees rather than hash tables, so that a peer that
/// chooses the keys can't make them slow, and nothing depends on random numbers.
#[derive(Debug, Default)]
pub(super) struct Table {
    connections: BTreeMap<ConnectionId, Connection>,
    by_peer: BTreeMap<Peer, ConnectionId>,
    by_qpn: BTreeMap<(IpAddr, Qpn), ConnectionId>,
    /// The connections and lookups that this side has requested and nobody has answered.
    requests: BTreeSet<(Path, ConnectionId)>,
    timers: BTreeSet<(Instant, ConnectionId)>,
    unanswered: usize,
    finished: usize,
    /// The IDs that peers may still remember.
    freed: RecentlyFreed,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// The number of requests from peers that the agent's owner has not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// The number of finished entries, which are kept only to repeat their answers.
    pub(super) fn finished(&self) -> usize {
        self.finished
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values()
    }

    /// Whether a connection has the ID, or had it a short while ago.
    pub(super) fn is_taken(&self, id: ConnectionId) -> bool {
        self.connections.contains_key(&id) || self.freed.contains(id.get())
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    pub(super) fn find_by_peer(&self, peer: Peer) -> Option<&Connection> {
        self.get(*self.by_peer.get(&peer)?)
    }

    pub(super) fn find_by_qpn(&self, address: IpAddr, qpn: Qpn) -> Option<&Connection> {
        self.get(*self.by_qpn.get(&(address, qpn))?)
    }

    pub(super) fn of_listener(&self, listener: crate::ListenerId) -> Vec<ConnectionId> {
        let is_waiting = |c: &&Connection| c.in_backlog_of == Some(listener);
        self.connections
            .values()
            .filter(is_waiting)
            .map(|c| c.id)
            .collect()
    }

    /// At most `limit` connections whose owner wants events.
    pub(super) fn owned(&self, limit: usize) -> Vec<ConnectionId> {
        let owned = self.connections.values().filter(|c| c.owned);
        owned.take(limit).map(|c| c.id).collect()
    }

    /// The connections whose peer's QP is in this process of a host.
    pub(super) fn of_peer(&self, remote: IpAddr, part: QpnRange) -> Vec<ConnectionId> {
        let of_host = self.of_host(remote);
        let of_peer = of_host.filter(|(qpn, _)| QpnRange::of(*qpn) == part);
        of_peer.map(|(_, c)| c.id).collect()
    }

    /// The connections on a path whose peer's QP is known.
    pub(super) fn on_path(&self, path: Path) -> Vec<ConnectionId> {
        let on_path = self.of_host(path.remote).filter(|(_, c)| c.path == path);
        on_path.map(|(_, c)| c.id).collect()
    }

    /// Whether there are connections on the path whose peer's QP is known.
    pub(super) fn has_peer_on(&self, path: Path) -> bool {
        self.of_host(path.remote).any(|(_, c)| c.path == path)
    }

    /// A connection on the path that is established, or that waits for the answer to its DREQ.
    pub(super) fn established_on(&self, path: Path) -> Option<&Connection> {
        let is_candidate = |c: &&Connection| {
            let state = &c.state;
            c.path == path && matches!(state, State::Established(_) | State::DreqSent(_))
        };
        self.of_host(path.remote).map(|(_, c)| c).find(is_candidate)
    }

    /// A connection or lookup on the path that this side has requested and nobody has answered.
    pub(super) fn first_request_on(&self, path: Path) -> Option<ConnectionId> {
        let all = (path, ConnectionId(0))..=(path, ConnectionId(u32::MAX));
        self.requests.range(all).next().map(|&(_, id)| id)
    }

    /// The connections whose peer's QP is known, and is at this address.
    fn of_host(&self, remote: IpAddr) -> impl Iterator<Item = (Qpn, &Connection)> {
        let all = (remote, Qpn::QP0)..=(remote, Qpn::MULTICAST);
        let ids = self.by_qpn.range(all);
        ids.filter_map(|(&(_, qpn), &id)| Some((qpn, self.get(id)?)))
    }

    pub(super) fn insert(&mut self, connection: Connection) {
        let id = connection.id;
        let peer = connection.peer();
        let qpn = connection
            .remote_qpn
            .map(|qpn| (connection.path.remote, qpn));
        self.unanswered += usize::from(connection.state.is_unanswered());
        self.finished += usize::from(connection.state.is_finished());
        self.timers.extend(connection.deadline.map(|at| (at, id)));
        if connection.state.is_requested() {
            self.requests.insert((connection.path, id));
        }
        self.connections.insert(id, connection);
        self.by_peer.extend(peer.map(|peer| (peer, id)));
        self.by_qpn.extend(qpn.map(|qpn| (qpn, id)));
    }

    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.forget_qpn(id);
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        self.freed.note(id.get());
        if let Some(at) = connection.deadline {
            self.timers.remove(&(at, id));
        }
        self.requests.remove(&(connection.path, id));
        self.unanswered -= usize::from(connection.state.is_unanswered());
        self.finished -= usize::from(connection.state.is_finished());
        if let Some(peer) = connection.peer() {
            self.by_peer.remove(&peer);
        }
    }

    /// Changes the state of a connection. At `deadline`, the state expires or its message is
    /// retransmitted.
    pub(super) fn change(&mut self, id: ConnectionId, state: State, deadline: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        self.unanswered -= usize::from(connection.state.is_unanswered());
        self.unanswered += usize::from(state.is_unanswered());
        self.finished -= usize::from(connection.state.is_finished());
        self.finished += usize::from(state.is_finished());
        match state.is_requested() {
            true => self.requests.insert((connection.path, id)),
            false => self.requests.remove(&(connection.path, id)),
        };
        connection.state = state;
        self.set_deadline(id, deadline);
    }

    /// Changes the deadline of a connection.
    pub(super) fn set_deadline(&mut self, id: ConnectionId, deadline: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(before) = core::mem::replace(&mut connection.deadline, deadline) {
            self.timers.remove(&(before, id));
        }
        self.timers.extend(deadline.map(|at| (at, id)));
    }

    /// Records the peer's ID for the connection, and the peer's QP.
    pub(super) fn set_peer(&mut self, id: ConnectionId, remote_id: u32, qpn: Qpn) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.remote_id = Some(remote_id);
        connection.remote_qpn = Some(qpn);
        let address = connection.path.remote;
        let peer = connection.peer();
        self.by_qpn.insert((address, qpn), id);
        self.by_peer.extend(peer.map(|peer| (peer, id)));
    }

    /// Removes the peer's QP from a connection, so that another connection may use the QP.
    pub(super) fn forget_qpn(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if let Some(qpn) = connection.remote_qpn.take() {
            self.by_qpn.remove(&(connection.path.remote, qpn));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// A connection whose deadline has passed.
    pub(super) fn expired(&self, now: Instant) -> Option<ConnectionId> {
        let &(at, id) = self.timers.first()?;
        (at <= now).then_some(id)
    }
}

impl Connection {
    fn peer(&self) -> Option<Peer> {
        Some(Peer {
            address: self.path.remote,
            lookup: self.lookup,
            id: self.remote_id?,
        })
    }
}
