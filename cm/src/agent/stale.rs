//! Connections that the peer may have forgotten.
//!
//! A REQ that names a QP to which this agent has a connection is a hint that the peer has forgotten
//! the connection, for example because its host restarted. Anyone can forge such a REQ, so the hint
//! alone ends nothing. The DREQ that IBTA 1.7, 12.9.8.3.1 asks for would end the connection at a
//! peer that still has it.
//!
//! The agent therefore probes the peer with a DREQ that has both IDs of the connection, but names
//! [`PROBED_QPN`]. A peer that has the connection drops this DREQ (12.6.10). A peer that has
//! forgotten the connection answers with a DREP (12.9), and only that DREP ends the connection. To
//! forge it, an attacker must know both IDs.
//!
//! A process that was killed leaves such connections behind. Its successor, which knows nothing of
//! them, may draw the same QPNs, so that its requests are rejected as stale. Since these rejections
//! also make the peer forget the old connection, the agent repeats such a request a few times before
//! it reports the rejection. If the old connection is this agent's own, because the peer's process
//! was killed, the agent probes it, and waits for the peer to repeat its REP.

use super::Agent;
use super::check::probe_timeout;
use super::state::{Connection, State};
use crate::{ConnectionId, Instant, Qpn};
use rand_core::Rng;
use roce_wire::cm::{CmMessage, Drep, Dreq, PrivateData};

/// The QPN in the DREQ of a probe. No connection has this QP.
const PROBED_QPN: Qpn = Qpn::QP1;
/// The maximum number of times that a connection is requested again after it was called stale.
const MAX_STALE_ANSWERS: u8 = 3;
/// The maximum number of probes for one hint. The agent sends them within 1.5 s.
const MAX_PROBES: u8 = 5;

impl Agent {
    /// Handles a REQ that names the peer's QP of the connection. Does nothing if the connection is
    /// not established or the agent already probes the peer.
    pub(super) fn on_stale_hint(&mut self, now: Instant, id: ConnectionId) {
        let connection = self.table.get(id);
        if connection.is_some_and(|c| c.is_established() && c.probes == 0) {
            self.send_stale_probe(now, id);
        }
    }

    // rule: 12.9-stale-ended
    fn send_stale_probe(&mut self, now: Instant, id: ConnectionId) {
        let transaction = self.rng.next_u64();
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let deadline = now + probe_timeout(connection.probes);
        connection.probes += 1;
        let path = connection.path;
        let (local_id, remote_id) = connection.ids();
        let dreq = Dreq {
            local_id,
            remote_id,
            remote_qpn: PROBED_QPN,
            private: PrivateData::NONE,
        };
        self.send_message(path, transaction, CmMessage::Dreq(dreq));
        self.counters.probes += 1;
        self.table.set_deadline(id, Some(deadline));
    }

    /// Handles the timeout of the last probe. After [`MAX_PROBES`], the agent keeps the connection:
    /// the peer has it, or is unreachable.
    pub(super) fn stale_probe_timed_out(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        if connection.probes < MAX_PROBES {
            return self.send_stale_probe(now, id);
        }
        connection.probes = 0;
        self.table.set_deadline(id, None);
    }

    /// Handles the answer to a probe: the peer has forgotten the connection.
    // rule: 12.9-stale-ended
    pub(super) fn on_stale_probe_answer(
        &mut self,
        now: Instant,
        id: ConnectionId,
        drep: &Drep<'_>,
    ) {
        self.counters.probe_answers += 1;
        self.disconnected(now, id, drep.private.bytes().to_vec(), None);
    }
}

impl Agent {
    /// Handles a REJ that calls the QP of a requested connection stale. Returns whether the agent
    /// requests the connection again: after 0.8 s, 1.6 s and 3.2 s, so that the peer has probed the
    /// old connection, and its time wait is over.
    pub(super) fn request_stale_again(&mut self, now: Instant, id: ConnectionId) -> bool {
        let first_pause = self.time_wait() + self.time_wait() / 2;
        let Some(connection) = self.table.get_mut(id) else {
            return false;
        };
        let State::ReqSent(message) = &mut connection.state else {
            return false;
        };
        let repeated = connection.stale_answers;
        if repeated == MAX_STALE_ANSWERS {
            return false;
        }
        connection.stale_answers += 1;
        // The end of the pause is no timeout.
        message.retries_left = message.retries_left.saturating_add(1);
        let deadline = now + first_pause * (1 << repeated);
        self.table.set_deadline(id, Some(deadline));
        true
    }

    /// Handles a REP that names a QP to which this agent already has the connection `other`. Returns
    /// whether the REP is ignored, because the peer may have forgotten `other`.
    pub(super) fn wait_for_stale(
        &mut self,
        now: Instant,
        id: ConnectionId,
        other: ConnectionId,
    ) -> bool {
        let Some(connection) = self.table.get_mut(id) else {
            return false;
        };
        if connection.stale_answers == MAX_STALE_ANSWERS {
            return false;
        }
        connection.stale_answers += 1;
        self.counters.duplicates += 1;
        self.on_stale_hint(now, other);
        true
    }
}

impl Connection {
    /// Whether the agent waits for the answer to a probe.
    pub(super) fn is_probed(&self) -> bool {
        self.is_established() && self.probes > 0
    }

    fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }
}
