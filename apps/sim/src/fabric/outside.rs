//! Hosts that are outside of the fabric: programs of this machine, say, whose frames pass through
//! it while real time goes by.
//!
//! The caller lets the fabric's time follow a clock: [`Fabric::step`] up to the time of the clock,
//! then [`Fabric::advance`]; it sleeps until [`Fabric::next_event_at`].

use super::{DropReason, Fabric, HostId};
use roce_stack::{Instant, RxMeta};

/// A frame of a host that is outside.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// All its bytes.
    pub bytes: &'a [u8],
    /// The bytes before the transport's, which links count as their own ([`super::OVERHEAD_BYTES`]).
    /// Queues do not count them, but at least 18 bytes for each frame: a frame of Ethernet has 60.
    pub headers: usize,
    /// The addresses that say where it goes, and the class and port that switches look at.
    pub meta: RxMeta,
}

impl Fabric {
    /// The time of the next event.
    pub fn next_event_at(&self) -> Option<Instant> {
        self.common.events.next_at()
    }

    /// Lets the time be `now`. The caller has handled all events up to then by [`Fabric::step`].
    pub fn advance(&mut self, now: Instant) {
        self.common.now = self.common.now.max(now);
        self.common.events.advance(self.common.now);
    }

    /// Whether the port of a host has space for a frame of `len` bytes that queues count. If not,
    /// a later [`Fabric::step`] returns [`super::Step::Host`] when there may be some.
    pub fn has_space(&mut self, host: HostId, len: usize) -> bool {
        let Some(egress) = self.hosts[host.0].egress else {
            return true;
        };
        let egress = &mut self.egresses[egress.0];
        let has = egress.has_space(len, 0);
        if !has {
            egress.note_waiting_host(&mut self.common.events);
        }
        has
    }

    /// Sends a frame of a host that is outside. It is lost if the port has no space, or if the link
    /// does not carry frames as long as it.
    pub fn send(&mut self, host: HostId, frame: &Frame<'_>) {
        let Some(id) = self.hosts[host.0].egress else {
            return;
        };
        let packet = self.common.pool.allocate(frame.bytes.len());
        let sent = self.common.pool.get_mut(packet);
        sent.bytes_mut().copy_from_slice(frame.bytes);
        sent.set_headers(frame.headers);
        sent.meta = frame.meta;
        let (len, queue_len) = (sent.len(), sent.queue_len());
        let egress = &self.egresses[id.0];
        let reason = match egress.has_space(queue_len, frame.meta.traffic_class) {
            _ if len > egress.spec.max_packet_bytes => Some(DropReason::TooLong),
            true => None,
            false => Some(DropReason::QueueFull),
        };
        if let Some(reason) = reason {
            self.common.counters.dropped += 1;
            return self.drop_packet([id; 2], reason, packet);
        }
        self.common.counters.sent += 1;
        self.egresses[id.0].push(&mut self.common, packet);
        self.start(id);
    }

    /// Takes the next frame that has arrived at a host that is outside, with the mark that a switch
    /// may have set. Returns whether there was one.
    pub fn take(&mut self, host: HostId, take: impl FnOnce(&[u8])) -> bool {
        let host = &mut self.hosts[host.0];
        if host.paused {
            return false;
        }
        let Some(packet) = host.ring.pop_front() else {
            return false;
        };
        take(self.common.pool.get(packet).bytes());
        self.common.counters.delivered += 1;
        self.common.pool.release(packet);
        true
    }
}
