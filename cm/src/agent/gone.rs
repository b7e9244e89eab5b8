//! Peers that are gone silently: their process has ended, and nothing answers for it.
//!
//! An owner that learns of a process's end calls [`Agent::peer_gone`]. Connections with it end as
//! if the peer had sent the message that it can no longer send: a DREQ whose answer is not needed,
//! once this side has accepted or is ready; before that, a REJ with the reason "timeout".

use super::Agent;
use super::state::State;
use crate::{ConnectionId, Event, Instant, Path, PrivateBytes, QpnPart, RejectReason};
use std::net::IpAddr;

/// The most processes of peers that wait to be polled by the owner.
const MAX_NEW_PEERS: usize = 1 << 16;

impl Agent {
    /// Notes that a connection's peer has a QP on this path. The owner may want to know when the
    /// peer's process ends.
    pub(super) fn met(&mut self, now: Instant, path: Path, qpn: crate::Qpn) {
        if self.new_peers.len() < MAX_NEW_PEERS {
            self.new_peers.insert((path.remote, QpnPart::of(qpn)));
        }
        self.check_from_now_on(now, path);
    }

    /// Ends all connections with one process.
    pub(super) fn end_with(&mut self, now: Instant, remote: IpAddr, part: QpnPart) {
        for id in self.table.of_peer(remote, part) {
            self.end_alone(now, id);
        }
    }

    /// Ends all connections on a path.
    pub(super) fn end_on(&mut self, now: Instant, path: Path) {
        for id in self.table.on_path(path) {
            self.end_alone(now, id);
        }
    }

    /// Ends a connection without a message from its peer.
    fn end_alone(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        match connection.state {
            State::ReqReceived | State::RepReceived => {
                self.queue_event(
                    id,
                    Event::Rejected {
                        connection: id,
                        reason: RejectReason::TIMEOUT,
                        private: PrivateBytes::default(),
                    },
                );
                self.over(now, id, None);
            }
            // The peer may have been ready, with its RTU in flight. A DREQ would imply that, too.
            State::RepSent(_) => {
                self.establish(id, &[]);
                self.disconnected(now, id, Vec::new(), None);
            }
            State::Established(_) | State::DreqSent(_) => {
                self.disconnected(now, id, Vec::new(), None);
            }
            // The owner already knows, or the peer is not known, or the connection has ended.
            State::DreqReceived
            | State::ReqSent(_)
            | State::LookupSent(_)
            | State::LookupReceived
            | State::TimeWait(_)
            | State::Over(_) => return,
        }
        self.counters.peer_gone += 1;
    }
}
