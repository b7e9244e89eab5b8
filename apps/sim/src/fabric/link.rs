//! One direction of a cable: a queue, a rate, a delay, and faults.

use super::events::{Event, Events, Position};
use super::fate::{DropReason, Fate};
use super::meter::{Meter, OVERHEAD_BYTES};
use super::names::{CableId, NodeId};
use super::pool::Pool;
use super::trace::Trace;
use super::{Counters, EgressId, PacketId};
use roce_faults::{Arrival, FaultModel, FaultSpec};
use roce_stack::{Duration, Instant};
use std::collections::VecDeque;

/// The parameters of a cable, the same for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bits per second.
    pub bits_per_sec: u64,
    /// The delay from one end to the other.
    pub delay: Duration,
    /// The largest transport packet, BTH to ICRC, in bytes.
    pub max_packet_bytes: usize,
    /// The capacity of the queue at each end, in bytes.
    pub queue_bytes: usize,
    /// Packets of this DSCP have a queue of their own, which has priority and is not stopped by
    /// pause frames: the class that operators use for CNPs.
    pub urgent_dscp: Option<u8>,
}

impl LinkSpec {
    /// Whether packets of this traffic class have priority.
    pub(super) fn is_urgent(&self, traffic_class: u8) -> bool {
        self.urgent_dscp == Some(traffic_class >> 2)
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self {
            bits_per_sec: 10_000_000_000,
            delay: Duration::from_micros(1),
            max_packet_bytes: 4200,
            queue_bytes: 256 << 10,
            urgent_dscp: None,
        }
    }
}

/// One direction of a cable, seen from the sender.
#[derive(Debug)]
pub(super) struct Egress {
    pub(super) id: EgressId,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) spec: LinkSpec,
    pub(super) faults: FaultModel,
    /// Whether the cable is cut, so that all packets are lost.
    pub(super) down: bool,
    /// Whether a pause frame stopped it.
    pub(super) paused: bool,
    /// Whether a host found the queue full and waits to be woken.
    host_waits: bool,
    /// When the last bit of the previous packet leaves.
    free_at: Position,
    /// Whether the event for that time is in the event queue, because a packet or a host waits for
    /// it.
    sent_event_queued: bool,
    queue: VecDeque<PacketId>,
    pub(super) queued_bytes: usize,
    /// Packets with priority, which `queued_bytes` does not include.
    urgent: VecDeque<PacketId>,
    pub(super) urgent_bytes: usize,
    pub(super) meter: Meter,
}

/// The state that all links use.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) now: Instant,
    pub(super) pool: Pool,
    pub(super) events: Events,
    pub(super) counters: Counters,
    pub(super) trace: Trace,
}

impl Egress {
    pub(super) fn new(id: EgressId, from: NodeId, to: NodeId, spec: LinkSpec, seed: u64) -> Self {
        Self {
            id,
            from,
            to,
            spec,
            faults: FaultModel::new(FaultSpec::default(), seed),
            down: false,
            paused: false,
            host_waits: false,
            free_at: Position::default(),
            sent_event_queued: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            urgent: VecDeque::new(),
            urgent_bytes: 0,
            meter: Meter::default(),
        }
    }

    /// Whether the queue has space for a packet of `len` bytes.
    pub(super) fn has_space(&self, len: usize, traffic_class: u8) -> bool {
        let waiting = if self.spec.is_urgent(traffic_class) {
            self.urgent_bytes
        } else {
            self.queued_bytes
        };
        waiting + len <= self.spec.queue_bytes
    }

    /// Whether nothing waits and nothing is being sent.
    pub(super) fn is_idle(&self, events: &Events) -> bool {
        !self.has_waiting() && !self.is_sending(events)
    }

    fn is_sending(&self, events: &Events) -> bool {
        events.is_pending(self.free_at)
    }

    /// Queues a packet for which [`Egress::has_space`] is true. The caller then calls
    /// [`Egress::start`].
    pub(super) fn push(&mut self, common: &mut Common, packet: PacketId) {
        let waiting = common.pool.get(packet);
        let len = waiting.queue_len();
        if self.spec.is_urgent(waiting.meta.traffic_class) {
            self.urgent_bytes += len;
            self.urgent.push_back(packet);
        } else {
            self.queued_bytes += len;
            self.queue.push_back(packet);
            self.meter.note_queued(common.now, self.queued_bytes);
        }
    }

    fn has_waiting(&self) -> bool {
        !self.queue.is_empty() || !self.urgent.is_empty()
    }

    /// The next packet to send, and its length in the queue.
    fn next_packet(&mut self, pool: &Pool) -> Option<(PacketId, usize)> {
        if let Some(packet) = self.urgent.pop_front() {
            let len = pool.get(packet).queue_len();
            self.urgent_bytes -= len;
            return Some((packet, len));
        }
        if self.paused {
            return None;
        }
        let packet = self.queue.pop_front()?;
        let len = pool.get(packet).queue_len();
        self.queued_bytes -= len;
        Some((packet, len))
    }

    /// Applies a pause frame, or one that ends the pause.
    pub(super) fn set_paused(&mut self, now: Instant, paused: bool) {
        self.paused = paused;
        self.meter.note_paused(now, paused);
    }

    /// Notes that a host found the queue full. The host is woken when a packet has been sent.
    pub(super) fn note_waiting_host(&mut self, events: &mut Events) {
        self.host_waits = true;
        self.wake_when_free(events);
    }

    /// If a packet is being sent, wakes the host when the packet has been sent.
    pub(super) fn wake_when_free(&mut self, events: &mut Events) {
        if self.is_sending(events) {
            self.queue_sent_event(events);
        }
    }

    /// Starts to send the next packet, if possible. Returns the link on which the packet arrived at
    /// this switch, and its length in the queue, so that the caller can tell the switch that the
    /// packet has left.
    pub(super) fn start(&mut self, common: &mut Common) -> Option<(EgressId, usize)> {
        if self.is_sending(&common.events) {
            if self.has_waiting() {
                self.queue_sent_event(&mut common.events);
            }
            return None;
        }
        let (packet, queue_len) = self.next_packet(&common.pool)?;
        let sending = common.pool.get_mut(packet);
        let len = sending.len();
        let from = sending.from.take();
        let marked_at = sending.marked_at.take();
        let now = common.now;
        self.meter
            .note_sent(now, sending.meta.src, len, self.queued_bytes);
        let (fate, queued_bytes) = match marked_at {
            Some(queued_bytes) => (Fate::Marked, queued_bytes),
            None => (Fate::Sent, self.queued_bytes),
        };
        common
            .trace
            .record(now, self.id, fate, queued_bytes, sending);
        let sent = common.now + self.serialization_time(len);
        self.free_at = common.events.reserve(sent);
        self.sent_event_queued = false;
        let lost = !self.apply_faults(common, sent + self.spec.delay, packet);
        // If a packet or a host waits, `Event::Sent` must be queued to wake it up. If the packet is
        // lost, `Event::Sent` must be queued so that virtual time reaches the end of its
        // transmission. In all other cases, the packet's arrival is the next event.
        if lost || self.host_waits || self.has_waiting() {
            self.queue_sent_event(&mut common.events);
        }
        from.map(|from| (from, queue_len))
    }

    /// The last bit of the packet has left. A host that found the queue full is woken next.
    pub(super) fn sent(&mut self) {
        self.host_waits = false;
    }

    /// Queues the event that the link is free. The event is queued only on demand: most packets
    /// find the link free, and no packet waits when they have been sent, so half of all events
    /// would be useless. The event has the position that was reserved when the packet was sent.
    fn queue_sent_event(&mut self, events: &mut Events) {
        if !self.sent_event_queued {
            self.sent_event_queued = true;
            events.push_at(self.free_at, Event::Sent(self.id));
        }
    }

    /// The serialization time of a packet.
    fn serialization_time(&self, len: usize) -> Duration {
        let bits = (len as u64 + OVERHEAD_BYTES) * 8;
        let rate = self.spec.bits_per_sec.max(1);
        let ns = match bits.checked_mul(1_000_000_000) {
            Some(product) => product / rate,
            None => {
                let ns = u128::from(bits) * 1_000_000_000 / u128::from(rate);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        };
        Duration::from_nanos(ns)
    }

    /// Applies faults to a packet in flight. Returns whether it arrives.
    fn apply_faults(&mut self, common: &mut Common, arrives: Instant, packet: PacketId) -> bool {
        common.counters.carried += 1;
        let len = common.pool.get(packet).len();
        let copies = self.faults.decide(arrives, len);
        let Some(first) = copies.first.filter(|_| !self.down) else {
            common.counters.lost += 1;
            let reason = match self.down {
                true => DropReason::LinkDown,
                false => DropReason::Lost,
            };
            self.meter.drops.add(reason);
            let (now, fate) = (common.now, Fate::Dropped(reason));
            let dropped = common.pool.get(packet);
            common
                .trace
                .record(now, self.id, fate, self.queued_bytes, dropped);
            common.pool.release(packet);
            return false;
        };
        if let Some(second) = copies.second {
            common.counters.duplicated += 1;
            let double = common.pool.duplicate(packet);
            self.schedule_arrival(common, &second, double);
        }
        common.counters.reordered += u64::from(first.held_back);
        common.counters.corrupted += u64::from(first.flipped_bit.is_some());
        self.schedule_arrival(common, &first, packet);
        true
    }

    fn schedule_arrival(&self, common: &mut Common, arrival: &Arrival, packet: PacketId) {
        if arrival.flipped_bit.is_some() {
            arrival.damage(common.pool.get_mut(packet).transport_mut());
        }
        if arrival.held_back {
            let event = Event::Arrive(self.id, packet);
            common.events.push(arrival.at, event);
        } else {
            common.events.push_arrival(arrival.at, self.id, packet);
        }
    }
}

/// The time from the first bit sent to the last bit received, for `bytes` bytes on the wire, which
/// include the wire overhead.
pub fn one_way(spec: &LinkSpec, bytes: usize) -> Duration {
    let ns = (bytes as u64 * 8).saturating_mul(1_000_000_000) / spec.bits_per_sec.max(1);
    spec.delay + Duration::from_nanos(ns)
}

/// One direction of a cable: the port of the node that sends in this direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The cable.
    pub cable: CableId,
    /// The node that sends.
    pub from: NodeId,
    /// The node that receives.
    pub to: NodeId,
    /// The parameters of the link.
    pub link: LinkSpec,
}
