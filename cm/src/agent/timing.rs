//! Timeouts, and what happens when they expire.

use super::Agent;
use super::state::{Mad, Repeated, State};
use crate::{ConnectionId, Duration, Event, Instant, RejectReason};
use roce_wire::cm::PrivateData;

/// The exponent of the longest time to wait for one answer, whatever exponent the peer sends: 17 s.
const LONGEST_ANSWER: u8 = 22;
/// The exponent of the longest extra wait for one MRA: 275 s. Linux asks for a quarter of that.
const LONGEST_SERVICE: u8 = 26;
/// The exponent of the time for which answers are kept in order to send them again: 34 s. An agent
/// of this kind retransmits its message for 26 s, and Linux retransmits it every 4.3 s.
const ANSWERS_KEPT: u8 = 23;

/// 4.096 µs × 2^`exponent` (IBTA 1.7, 12.6.5).
// rule: 12.6.5-timeout-encoding
pub(super) fn encoded(exponent: u8) -> Duration {
    Duration::from_nanos(4096 << exponent.min(31))
}

impl Agent {
    /// The timeout for an answer to a message just sent, if the peer announced its response time:
    /// that time plus the travel times of two packets.
    // rule: 12.9-wait
    pub(super) fn peer_takes(&self, exponent: u8) -> Duration {
        encoded(exponent.min(LONGEST_ANSWER)) + 2 * encoded(self.config.packet_lifetime)
    }

    /// The timeout for an answer after an MRA with this service timeout, including the travel times
    /// of two packets.
    pub(super) fn service_takes(&self, exponent: u8) -> Duration {
        encoded(exponent.min(LONGEST_SERVICE)) + 2 * encoded(self.config.packet_lifetime)
    }

    /// How long answers are kept.
    pub(super) fn answers_kept(&self) -> Duration {
        encoded(ANSWERS_KEPT) + 2 * encoded(self.config.packet_lifetime)
    }

    /// How long an ended connection waits for packets in flight.
    // rule: 12.9-time-wait-length
    pub(super) fn time_wait(&self) -> Duration {
        2 * encoded(self.config.packet_lifetime)
    }

    /// Sends a message that needs an answer, and enters the state that `wrap` makes, which waits
    /// for it.
    pub(super) fn send_repeated(
        &mut self,
        now: Instant,
        id: ConnectionId,
        mad: Mad,
        wrap: fn(Repeated) -> State,
    ) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let (path, left) = (connection.path, connection.retries);
        let deadline = now + connection.peer_takes;
        self.send(path, *mad);
        let state = wrap(Repeated { mad, left });
        self.table.change(id, state, Some(deadline));
    }

    /// Handles the expired deadline of a connection.
    pub(super) fn expire(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let (path, takes) = (connection.path, connection.peer_takes);
        match &mut connection.state {
            // rule: 12.9-repeat
            State::ReqSent(again)
            | State::RepSent(again)
            | State::DreqSent(again)
            | State::LookupSent(again)
                if again.left > 0 =>
            {
                again.left -= 1;
                let mad = *again.mad;
                self.counters.repeated += 1;
                self.table.postpone(id, Some(now + takes));
                self.send(path, mad);
            }
            // rule: 12.9-give-up
            State::ReqSent(_) | State::RepSent(_) => {
                self.queue_event(id, Event::Unreachable { connection: id });
                self.refuse(now, id, RejectReason::TIMEOUT, PrivateData::NONE);
            }
            State::LookupSent(_) => {
                self.queue_event(id, Event::Unreachable { connection: id });
                self.table.remove(id);
            }
            State::DreqSent(_) => self.disconnected(now, id, Vec::new(), None),
            State::TimeWait(_) => {
                self.queue_event(id, Event::TimeWaitOver { connection: id });
                self.table.remove(id);
            }
            State::Over(_) => self.table.remove(id),
            // These states wait for the owner, without a limit.
            State::ReqReceived
            | State::RepReceived
            | State::Established(_)
            | State::DreqReceived
            | State::LookupReceived => self.table.postpone(id, None),
        }
    }
}
