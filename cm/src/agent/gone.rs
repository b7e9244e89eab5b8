//! Peers whose process has ended without a message, or was never there, so that nothing answers
//! for them.
//!
//! An owner that learns that a process has ended calls [`Agent::peer_gone`]. Each connection with
//! the process then ends as if the peer had sent the message that it can no longer send. If this
//! side has accepted the connection or is ready, that message is a DREQ that needs no answer.
//! Before that, it is a REJ with the reason "timeout".

use super::Agent;
use super::state::State;
use crate::{ConnectionId, Event, Instant, Path, PrivateBytes, QpnRange, RejectReason, SidrStatus};
use roce_wire::cm::PrivateData;
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

    /// Ends all connections and requests on a path, because nothing at its end has RoCEv2's port.
    pub(super) fn end_on_path(&mut self, now: Instant, path: Path) {
        for id in self.table.on_path(path) {
            self.end_without_peer(now, id);
        }
        while let Some(id) = self.table.first_request_on(path) {
            self.refuse_without_peer(now, id);
        }
    }

    /// Ends all requests on a path, because no packet reaches the host at its end.
    pub(super) fn end_requests_on_path(&mut self, now: Instant, path: Path) {
        while let Some(id) = self.table.first_request_on(path) {
            self.give_up(now, id);
        }
    }

    /// Ends a request as an agent without a listener for it does.
    fn refuse_without_peer(&mut self, now: Instant, id: ConnectionId) {
        let private = PrivateBytes::default();
        match self.table.get(id).map(|c| c.lookup) {
            Some(true) => {
                let event = Event::DatagramRejected {
                    connection: id,
                    status: SidrStatus::SERVICE_ID_NOT_SUPPORTED,
                    private,
                };
                self.queue_event(id, event);
                self.table.remove(id);
            }
            _ => {
                let event = Event::Rejected {
                    connection: id,
                    reason: RejectReason::INVALID_SERVICE_ID,
                    private,
                };
                self.queue_event(id, event);
                self.refuse(now, id, RejectReason::TIMEOUT, PrivateData::NONE);
            }
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
