//! Peers whose process has ended without a message, so that nothing answers for them.
//!
//! An owner that learns that a process has ended calls [`Agent::peer_gone`]. Each connection with
//! the process then ends as if the peer had sent the message that it can no longer send. If this
//! side has accepted the connection or is ready, that message is a DREQ that needs no answer.
//! Before that, it is a REJ with the reason "timeout".

use super::Agent;
use super::state::State;
use crate::{ConnectionId, Event, Instant, Path, PrivateBytes, QpnRange, RejectReason};
use std::net::IpAddr;

/// The maximum number of remote processes that wait for [`Agent::poll_peer`].
const MAX_NEW_PEERS: usize = 1 << 16;

impl Agent {
    /// Notes that a connection's peer has a QP on this path. The owner may want to know when the
    /// peer's process ends.
    pub(super) fn note_peer(&mut self, now: Instant, path: Path, qpn: crate::Qpn) {
        if self.new_peers.len() < MAX_NEW_PEERS {
            self.new_peers.insert((path.remote, QpnRange::of(qpn)));
        }
        self.start_checks(now, path);
    }

    /// Ends all connections with one process.
    pub(super) fn end_with_process(&mut self, now: Instant, remote: IpAddr, part: QpnRange) {
        for id in self.table.of_peer(remote, part) {
            self.end_without_peer(now, id);
        }
    }

    /// Ends all connections on a path.
    pub(super) fn end_on_path(&mut self, now: Instant, path: Path) {
        for id in self.table.on_path(path) {
            self.end_without_peer(now, id);
        }
    }

    /// Ends a connection without a message from its peer.
    fn end_without_peer(&mut self, now: Instant, id: ConnectionId) {
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
                self.finish(now, id, None);
            }
            // The peer may have sent its RTU before it ended. A DREQ would imply the RTU, too.
            State::RepSent(_) => {
                self.establish(id, &[]);
                self.disconnected(now, id, Vec::new(), None);
            }
            State::Established(_) | State::DreqSent(_) => {
                self.disconnected(now, id, Vec::new(), None);
            }
            // The owner already knows of the end, or the peer's QP is not known, or the connection
            // has ended.
            State::DreqReceived
            | State::ReqSent(_)
            | State::LookupSent(_)
            | State::LookupReceived
            | State::TimeWait(_)
            | State::Finished(_) => return,
        }
        self.counters.peer_gone += 1;
    }
}
