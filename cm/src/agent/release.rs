//! The end of connections.

use super::Agent;
use super::active::{private_data, wrong_state};
use super::held::RequestKey;
use super::state::{Mad, State};
use crate::{CmError, ConnectionId, Event, Instant, Path, PrivateBytes, RejectReason};
use rand_core::Rng;
use roce_wire::cm::{CmMessage, Drep, Dreq, PrivateData};

impl Agent {
    pub(super) fn end(
        &mut self,
        now: Instant,
        id: ConnectionId,
        private: &[u8],
    ) -> Result<(), CmError> {
        let connection = self.known(id)?;
        match connection.state {
            State::Established(_) => {
                let private = private_data(private, 0)?;
                self.send_dreq(now, id, private);
                Ok(())
            }
            State::DreqReceived => {
                let private = private_data(private, 0)?;
                self.send_drep(now, id, private);
                Ok(())
            }
            _ => Err(wrong_state(connection, "is established")),
        }
    }

    // rule: 12.9-dreq
    fn send_dreq(&mut self, now: Instant, id: ConnectionId, private: PrivateData<'_, 220>) {
        let transaction = self.rng.next_u64();
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.transaction = transaction;
        let (local_id, remote_id) = connection.ids();
        let dreq = connection.mad(CmMessage::Dreq(Dreq {
            local_id,
            remote_id,
            remote_qpn: connection.remote_qpn.unwrap_or(crate::Qpn::QP0),
            private,
        }));
        let path = connection.path;
        self.send_until_answered(now, id, dreq, State::DreqSent);
        self.check_path_now(path);
    }

    /// Answers the DREQ, and waits for late packets.
    fn send_drep(&mut self, now: Instant, id: ConnectionId, private: PrivateData<'_, 224>) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let path = connection.path;
        let (local_id, remote_id) = connection.ids();
        let drep = connection.mad(CmMessage::Drep(Drep {
            local_id,
            remote_id,
            private,
        }));
        self.send(path, *drep);
        self.wait_for_late_packets(now, id, Some(drep));
    }

    // rule: 12.9-time-wait
    fn wait_for_late_packets(&mut self, now: Instant, id: ConnectionId, drep: Option<Mad>) {
        let deadline = now + self.time_wait();
        self.table.change(id, State::TimeWait(drep), Some(deadline));
    }

    /// Tells the owner that the connection has ended on both sides, and starts time wait.
    pub(super) fn disconnected(
        &mut self,
        now: Instant,
        id: ConnectionId,
        private: Vec<u8>,
        drep: Option<Mad>,
    ) {
        self.queue_event(
            id,
            Event::Disconnected {
                connection: id,
                private: private.into(),
            },
        );
        self.wait_for_late_packets(now, id, drep);
    }

    pub(super) fn on_dreq(&mut self, now: Instant, path: Path, transaction: u64, dreq: &Dreq<'_>) {
        let id = ConnectionId(dreq.remote_id);
        let Some(connection) = self.table.get_mut(id) else {
            return self.answer_unknown(path, transaction, dreq);
        };
        // The peer means an older connection with the same ID, of another process.
        if !connection.is_with(path, dreq.local_id) {
            return self.answer_unknown(path, transaction, dreq);
        }
        // rule: 12.6.10-remote-qpn
        if connection.local_qpn != dreq.remote_qpn {
            self.counters.unexpected += 1;
            return;
        }
        match &connection.state {
            State::RepSent(_) => {
                connection.transaction = transaction;
                // A peer that sends a DREQ has established the connection before, so its RTU was
                // lost.
                // rule: 12.9-dreq-before-rtu
                self.establish(id, &[]);
                self.on_first_dreq(now, id, dreq);
            }
            State::Established(_) => {
                connection.transaction = transaction;
                self.on_first_dreq(now, id, dreq);
            }
            // Both ends disconnect at once.
            // rule: 12.9-crossing
            State::DreqSent(_) => {
                connection.transaction = transaction;
                self.queue_event(
                    id,
                    Event::Disconnected {
                        connection: id,
                        private: PrivateBytes::default(),
                    },
                );
                self.send_drep(now, id, PrivateData::NONE);
            }
            // rule: 12.9-repeated-dreq
            State::TimeWait(Some(drep)) => {
                let drep = **drep;
                self.resend_answer(now, id, drep);
            }
            State::TimeWait(None) | State::Finished(_) => {
                self.answer_unknown(path, transaction, dreq)
            }
            _ => self.counters.duplicates += 1,
        }
    }

    fn on_first_dreq(&mut self, now: Instant, id: ConnectionId, dreq: &Dreq<'_>) {
        self.table.change(id, State::DreqReceived, None);
        if self.table.get(id).is_some_and(|c| !c.owned) {
            return self.send_drep(now, id, PrivateData::NONE);
        }
        self.queue_event(
            id,
            Event::DisconnectRequested {
                connection: id,
                private: dreq.private.bytes().to_vec().into(),
            },
        );
    }

    /// Answers a DREQ for a connection that does not exist (any more): the peer needs the answer to
    /// finish.
    // rule: 12.9-unknown-dreq
    fn answer_unknown(&mut self, path: Path, transaction: u64, dreq: &Dreq<'_>) {
        // A peer that sends a DREQ for a connection that it has requested does not wait for an
        // answer to the request any more.
        self.drop_held_request(RequestKey {
            path,
            lookup: false,
            id: dreq.local_id,
        });
        self.counters.unexpected += 1;
        let drep = Drep {
            local_id: dreq.remote_id,
            remote_id: dreq.local_id,
            private: PrivateData::NONE,
        };
        self.send_message(path, transaction, CmMessage::Drep(drep));
    }

    pub(super) fn on_drep(&mut self, now: Instant, path: Path, drep: &Drep<'_>) {
        let id = ConnectionId(drep.remote_id);
        match self.table.get(id) {
            Some(c) if c.is_with(path, drep.local_id) && matches!(c.state, State::DreqSent(_)) => {
                self.disconnected(now, id, drep.private.bytes().to_vec(), None);
            }
            Some(c) if c.is_with(path, drep.local_id) && c.is_probed() => {
                self.on_stale_probe_answer(now, id, drep);
            }
            _ => self.counters.unexpected += 1,
        }
    }

    pub(super) fn disown(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.owned = false;
        self.events.retain(|event| event.connection() != id);
        match connection.state {
            State::ReqSent(_) => self.refuse(now, id, RejectReason::TIMEOUT, PrivateData::NONE),
            State::ReqReceived | State::RepSent(_) | State::RepReceived => {
                self.refuse(now, id, RejectReason::CONSUMER, PrivateData::NONE);
            }
            State::Established(_) => self.send_dreq(now, id, PrivateData::NONE),
            State::DreqReceived => self.send_drep(now, id, PrivateData::NONE),
            State::LookupSent(_) => self.table.remove(id),
            State::LookupReceived => self.drop_lookup(now, id),
            State::DreqSent(_) | State::TimeWait(_) | State::Finished(_) => {}
        }
    }
}
