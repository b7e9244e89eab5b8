//! Peers that are gone without a word: their process has ended, and nobody speaks for it.
//!
//! An owner that knows of a process's end says so ([`Agent::peer_gone`]). Connections with it
//! end as if the peer had said what it can't say any more: a DREQ whose answer nobody waits for,
//! once this side has accepted or is ready; before that, a REJ with the reason "timeout".

use super::Agent;
use super::state::State;
use crate::{ConnectionId, Event, Instant, Path, PrivateBytes, QpnPart, RejectReason};
use std::net::IpAddr;

/// The most processes of peers that wait for the owner to take notice.
const MAX_NEW_PEERS: usize = 1 << 16;

impl Agent {
    /// A connection's peer has a QP on this path, and the owner may want to know when the
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

    /// Ends a connection without its peer.
    fn end_alone(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        match connection.state {
            State::ReqReceived | State::RepReceived => {
                self.tell(
                    id,
                    Event::Rejected {
                        connection: id,
                        reason: RejectReason::TIMEOUT,
                        private: PrivateBytes::default(),
                    },
                );
                self.over(now, id, None);
            }
            // The peer may have been ready, and its RTU be under way. A DREQ would say so, too.
            State::RepSent(_) => {
                self.establish(id, &[]);
                self.disconnected(now, id, Vec::new(), None);
            }
            State::Established(_) | State::DreqSent(_) => {
                self.disconnected(now, id, Vec::new(), None);
            }
            // The owner was told before, or the peer is not known, or it has ended.
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
