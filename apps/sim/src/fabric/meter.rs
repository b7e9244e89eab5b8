//! Measurements of one direction of a cable.

use super::fate::Drops;
use super::names::Ip;
use roce_stack::{Duration, Instant};
use std::net::IpAddr;

/// Ethernet, IP and UDP headers, preamble and gap: the wire overhead of a packet.
pub const OVERHEAD_BYTES: u64 = 66;

/// The measurements of one direction of a cable. Bytes on the wire include headers of all layers,
/// the preamble and the gap ([`OVERHEAD_BYTES`]); bytes in queues do not.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Bytes on the wire by the number of the sending host.
    pub wire_bytes_of: Vec<u64>,
    /// Queue length in bytes after the last packet was added or removed, without packets of the
    /// urgent class.
    pub queue_bytes: usize,
    /// The longest queue since [`Meter::take_peak`].
    peak_bytes: usize,
    /// The sum of the queue's lengths in bytes at each nanosecond until `queue_since`.
    queue_byte_ns: u128,
    queue_since: Instant,
    /// Packets that were dropped at the port, on the link, or at the host at its far end.
    pub drops: Drops,
    /// Packets that were marked.
    pub marked: u64,
    /// Pause frames that stopped it.
    pub pauses: u64,
    paused_for: Duration,
    paused_since: Option<Instant>,
}

impl Meter {
    /// The longest queue since the last call, in bytes.
    pub fn take_peak(&mut self) -> usize {
        std::mem::replace(&mut self.peak_bytes, self.queue_bytes)
    }

    /// The time for which pause frames stopped it, up to `now`.
    pub fn paused_for(&self, now: Instant) -> Duration {
        let since = self
            .paused_since
            .map(|at| now.saturating_duration_since(at));
        self.paused_for + since.unwrap_or_default()
    }

    /// The sum of the queue's lengths in bytes at each nanosecond up to `now`. The mean length
    /// between two moments is the difference of their sums, divided by the nanoseconds.
    pub fn queue_byte_ns(&self, now: Instant) -> u128 {
        let ns = now.as_nanos().saturating_sub(self.queue_since.as_nanos());
        self.queue_byte_ns + u128::from(ns) * self.queue_bytes as u128
    }

    fn set_queue(&mut self, now: Instant, bytes: usize) {
        if self.queue_bytes != bytes {
            self.queue_byte_ns = self.queue_byte_ns(now);
            self.queue_since = now;
            self.queue_bytes = bytes;
        }
    }

    pub(super) fn note_queued(&mut self, now: Instant, bytes: usize) {
        self.set_queue(now, bytes);
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    pub(super) fn note_sent(&mut self, now: Instant, src: IpAddr, len: usize, queue_bytes: usize) {
        let bytes = len as u64 + OVERHEAD_BYTES;
        self.set_queue(now, queue_bytes);
        self.wire_bytes += bytes;
        let host = Ip::index(src).unwrap_or(0);
        if self.wire_bytes_of.len() <= host {
            self.wire_bytes_of.resize(host + 1, 0);
        }
        self.wire_bytes_of[host] += bytes;
    }

    pub(super) fn note_paused(&mut self, now: Instant, paused: bool) {
        if paused {
            self.pauses += 1;
            self.paused_since.get_or_insert(now);
        } else if let Some(since) = self.paused_since.take() {
            self.paused_for += now.saturating_duration_since(since);
        }
    }
}
