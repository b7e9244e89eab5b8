//! Refusals, sent and received.

use super::active::{private_data, wrong_state};
use super::held::RequestKey;
use super::state::{Connection, Mad, State};
use super::table::Peer;
use super::{Agent, MAX_FINISHED};
use crate::{CmError, ConnectionId, Event, Instant, Path, RejectReason};
use roce_wire::cm::{CmMessage, PrivateData, Rej, Rejected};

impl Agent {
    /// Carries out a refusal by the owner.
    pub(super) fn refuse_by_owner(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reason: RejectReason,
        private: &[u8],
    ) -> Result<(), CmError> {
        let connection = self.known(id)?;
        match connection.state {
            // rule: 12.9-consumer-reject, 12.9-active-reject
            State::ReqReceived | State::RepReceived => {
                let private = private_data(private, 0)?;
                self.refuse(now, id, reason, private);
                Ok(())
            }
            State::LookupReceived => self.refuse_lookup(now, id, reason, private),
            _ => Err(wrong_state(connection, "waits for its owner")),
        }
    }

    /// Sends a REJ and finishes the connection.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reason: RejectReason,
        private: PrivateData<'_, 148>,
    ) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let path = connection.path;
        let (local_id, remote_id) = connection.ids();
        let is_unanswered_req = matches!(connection.state, State::ReqSent(_));
        let guid = self.config.ca_guid.to_be_bytes();
        let rej = connection.mad(CmMessage::Rej(Rej {
            local_id,
            remote_id,
            rejected: match connection.state {
                State::ReqReceived => Rejected::Req,
                State::RepReceived => Rejected::Rep,
                _ => Rejected::NoMessage,
            },
            reason,
            // The peer's communication ID may be unknown. The GUID then identifies the connection's
            // host.
            // rule: 12.6.7.2-timeout-info
            info: match reason {
                RejectReason::TIMEOUT => PrivateData::new(&guid).unwrap_or_default(),
                _ => PrivateData::NONE,
            },
            private,
        }));
        self.send(path, *rej);
        if is_unanswered_req {
            self.table.remove(id);
        } else {
            self.finish(now, id, Some(rej));
        }
    }

    /// Ends a connection without time wait, because no packet of its QPs can be in flight, or
    /// because such packets do no harm. Keeps `answer` for a while, to send it again if the peer
    /// retransmits.
    pub(super) fn finish(&mut self, now: Instant, id: ConnectionId, answer: Option<Mad>) {
        self.leave_backlog(id);
        if self.table.finished() >= MAX_FINISHED {
            self.table.remove(id);
            return;
        }
        self.table.forget_qpn(id);
        let deadline = now + self.answer_retention();
        self.table
            .change(id, State::Finished(answer), Some(deadline));
    }

    pub(super) fn on_rej(&mut self, now: Instant, path: Path, rej: &Rej<'_>) {
        let Some(connection) = self.rejected_connection(path, rej) else {
            if !self.drop_withdrawn_request(path, rej) {
                self.counters.unexpected += 1;
            }
            return;
        };
        let id = connection.id;
        let is_stale = rej.reason == RejectReason::STALE_CONNECTION;
        if is_stale && self.request_stale_again(now, id) {
            return;
        }
        let rejected = Event::Rejected {
            connection: id,
            reason: rej.reason,
            private: rej.private.bytes().to_vec().into(),
        };
        match self.table.get(id).map(|c| &c.state) {
            Some(State::ReqSent(_)) => {
                self.queue_event(id, rejected);
                self.table.remove(id);
            }
            Some(State::ReqReceived | State::RepSent(_) | State::RepReceived) => {
                self.queue_event(id, rejected);
                self.finish(now, id, None);
            }
            // The peer never saw the RTU, and gave up.
            // rule: 12.9-rejected-late
            Some(State::Established(_) | State::DreqSent(_)) => {
                self.disconnected(now, id, Vec::new(), None);
            }
            _ => self.counters.unexpected += 1,
        }
    }

    /// Drops the held request that the REJ withdraws. Returns whether there was one.
    fn drop_withdrawn_request(&mut self, path: Path, rej: &Rej<'_>) -> bool {
        let is_for_request = rej.remote_id == 0 && rej.reason == RejectReason::TIMEOUT;
        is_for_request
            && self.drop_held_request(RequestKey {
                path,
                lookup: false,
                id: rej.local_id,
            })
    }

    /// The connection that a REJ refers to.
    fn rejected_connection(&self, path: Path, rej: &Rej<'_>) -> Option<&Connection> {
        // A peer that gave up before the first answer does not know our ID.
        // rule: 12.6.7-unknown-remote-id
        if rej.remote_id == 0 {
            let peer = Peer {
                address: path.remote,
                lookup: false,
                id: rej.local_id,
            };
            let connection = self.table.find_by_peer(peer)?;
            let gave_up = rej.reason == RejectReason::TIMEOUT && connection.path == path;
            return gave_up.then_some(connection);
        }
        let connection = self.table.get(ConnectionId(rej.remote_id))?;
        let is_meant = match connection.state {
            State::ReqSent(_) => connection.path == path,
            _ => connection.is_with(path, rej.local_id),
        };
        is_meant.then_some(connection)
    }
}
