//! Sending what is ready, and which posts wait for those that follow.

use super::Engine;
use crate::runtime::pacing::Batch;
use roce_stack::{Instant, Stat};
use roce_wire::Qpn;

impl Engine {
    /// Sends the packets that are ready. Returns whether there were any.
    pub(crate) fn send(&mut self, now: Instant) -> bool {
        if self.has_stopped() {
            return false;
        }
        let now = self.nic_time(now);
        let mut busy = false;
        if self.nic.wants_to_send() {
            let before = self.nic.counters()[Stat::TxPackets];
            self.nic.transmit(now, &mut *self.port);
            self.pacing.note_sent();
            // A destination may have no room for what is ready.
            busy = self.nic.counters()[Stat::TxPackets] != before || !self.nic.wants_to_send();
        }
        if (busy || self.port.queued() > 0)
            && let Err(error) = self.port.flush()
        {
            self.failure = Some(error);
        }
        self.write_tally();
        busy
    }

    /// Handles the requests that the application has just posted to the QP `qpn`: leaves them
    /// waiting for those that follow ([`Pacing`]), or sends them, together with all that wait.
    /// Returns whether they wait.
    pub(crate) fn send_posted(&mut self, now: Instant, qpn: Qpn, posted: Batch) -> bool {
        let now = self.nic_time(now);
        let received = self.nic.counters()[Stat::RxPackets];
        if self.pacing.note_post(now, received, posted) && self.can_wait(qpn) {
            self.pacing.wait(posted);
            return true;
        }
        self.send_at_once(now, qpn);
        false
    }

    /// Whether what was posted to a QP can wait. If the QP has nothing in flight, its peer may be idle.
    fn can_wait(&self, qpn: Qpn) -> bool {
        !self.has_stopped() && self.nic.wants_to_send() && self.nic.has_in_flight(qpn)
    }

    /// Sends all that is ready, before the process or a connection ends.
    pub(crate) fn send_all(&mut self, now: Instant) {
        self.port.note_time(None);
        if self.pacing.has_waiting() || self.nic.wants_to_send() {
            self.send(now);
        }
    }

    /// Sends what waits, if anything does.
    pub(in crate::runtime) fn send_waiting(&mut self, now: Instant) {
        if self.pacing.has_waiting() {
            self.send(now);
        }
    }

    /// Sends the requests posted to the QP `qpn`, and then its pending replies to the peer, mostly
    /// acknowledgements. A port can send a request and a following acknowledgement to the same peer
    /// in one datagram. The other QPs wait for the next [`Engine::send`], unless one that has waited
    /// longer than `qpn` has more than an acknowledgement to send, one has posts that wait, or the port
    /// batches packets of different QPs ([`Port::batches_mixed_packets`]). Then all QPs send.
    fn send_at_once(&mut self, now: Instant, qpn: Qpn) {
        let all = self.pacing.has_waiting() || self.port.batches_mixed_packets();
        if all || self.has_stopped() {
            self.send(now);
            return;
        }
        self.nic.transmit_posted(now, &mut *self.port, qpn);
        if self.port.queued() > 0
            && let Err(error) = self.port.flush()
        {
            self.failure = Some(error);
        }
        self.write_tally();
    }
}
