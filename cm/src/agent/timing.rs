//! Timeouts, and the handling of expired ones.

use super::Agent;
use super::state::{Mad, Retransmitted, State};
use crate::{ConnectionId, Duration, Event, Instant, RejectReason};
use roce_wire::cm::PrivateData;

/// The largest accepted exponent of a response time: 17 s. It limits the wait for one answer.
const MAX_ANSWER_EXPONENT: u8 = 22;
/// The largest accepted exponent of the service timeout in an MRA: 275 s. Linux requests a quarter
/// of that.
const MAX_MRA_EXPONENT: u8 = 26;
/// The longest time between two transmissions of a REP, in timeouts.
const LONGEST_REP_WAIT: u8 = 3;
/// The exponent of the time after the last retransmission for which answers are kept in order to
/// send them again: 34 s. An agent
/// of this kind retransmits its message for 26 s, and Linux retransmits a message every 4.3 s.
const ANSWER_RETENTION_EXPONENT: u8 = 23;

/// The duration 4.096 µs × 2^`exponent` (IBTA 1.7, 12.6.5).
// rule: 12.6.5-timeout-encoding
pub(super) fn timeout_of(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << exponent.min(31))
}

impl Agent {
    /// The timeout for the answer of a peer whose response time has this exponent: the response
    /// time plus the travel times of two packets.
    // rule: 12.9-wait
    pub(super) fn answer_timeout(&self, exponent: u8) -> Duration {
        timeout_of(exponent.min(MAX_ANSWER_EXPONENT)) + 2 * timeout_of(self.config.packet_lifetime)
    }

    /// The timeout for an answer after an MRA with this service timeout, including the travel times
    /// of two packets.
    pub(super) fn timeout_after_mra(&self, exponent: u8) -> Duration {
        timeout_of(exponent.min(MAX_MRA_EXPONENT)) + 2 * timeout_of(self.config.packet_lifetime)
    }

    /// How long answers are kept.
    pub(super) fn answer_retention(&self) -> Duration {
        timeout_of(ANSWER_RETENTION_EXPONENT) + 2 * timeout_of(self.config.packet_lifetime)
    }

    /// How long an ended connection waits for packets in flight.
    // rule: 12.9-time-wait-length
    pub(super) fn time_wait(&self) -> Duration {
        2 * timeout_of(self.config.packet_lifetime)
    }

    /// Sends a message that needs an answer, and enters the state that `state` returns. In that
    /// state, the agent waits for the answer and retransmits the message.
    pub(super) fn send_until_answered(
        &mut self,
        now: Instant,
        id: ConnectionId,
        mad: Mad,
        state: fn(Retransmitted) -> State,
    ) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let (path, retries_left) = (connection.path, connection.max_retries);
        let deadline = now + connection.answer_timeout;
        self.send(path, *mad);
        let state = state(Retransmitted {
            mad,
            retries_left,
            waited: 1,
        });
        self.table.change(id, state, Some(deadline));
    }

    /// Handles the expired deadline of a connection.
    pub(super) fn expire(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let (path, timeout) = (connection.path, connection.answer_timeout);
        // The sender of a REQ chooses how often the REP is retransmitted, and need not exist. It gets
        // the time that it asks for, with fewer packets: it also gets a REP for each REQ that it
        // repeats.
        let is_rep = matches!(connection.state, State::RepSent(_));
        match &mut connection.state {
            // rule: 12.9-repeat
            State::ReqSent(message)
            | State::RepSent(message)
            | State::DreqSent(message)
            | State::LookupSent(message)
                if message.retries_left > 0 =>
            {
                let wait = u32::from(message.next_wait(if is_rep { LONGEST_REP_WAIT } else { 1 }))
                    * timeout;
                let mad = *message.mad;
                self.counters.retransmitted += 1;
                self.table.set_deadline(id, Some(now + wait));
                self.send(path, mad);
            }
            // rule: 12.9-give-up
            State::ReqSent(_) | State::RepSent(_) | State::LookupSent(_) => self.give_up(now, id),
            State::DreqSent(_) => self.disconnected(now, id, Vec::new(), None),
            State::TimeWait(_) => {
                self.queue_event(id, Event::TimeWaitOver { connection: id });
                self.table.remove(id);
            }
            State::Finished(_) => self.table.remove(id),
            State::Established(_) => self.stale_probe_timed_out(now, id),
            // These states wait for the owner, without a limit.
            State::ReqReceived
            | State::RepReceived
            | State::DreqReceived
            | State::LookupReceived => self.table.set_deadline(id, None),
        }
    }

    /// Ends a connection that is not established yet, or a lookup, because the peer does not answer.
    pub(super) fn give_up(&mut self, now: Instant, id: ConnectionId) {
        self.queue_event(id, Event::Unreachable { connection: id });
        match self.table.get(id).map(|c| &c.state) {
            Some(State::LookupSent(_)) => self.table.remove(id),
            _ => self.refuse(now, id, RejectReason::TIMEOUT, PrivateData::NONE),
        }
    }
}
