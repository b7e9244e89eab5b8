//! Hosts, links and switches in virtual time.
//!
//! ```text
//!   Host: Nic ──► queue ═══ link ═══► Switch: queue ═══ link ═══► Host: ring ──► Nic
//!                   ▲ pause            │ tail drop, ECN mark
//!                   └──────────────────┘ loss, duplicates, corruption … on each link
//! ```
//!
//! A [`FabricBuilder`] builds it. [`Fabric::step`] goes from event to event and reports which host
//! was affected, so that its application can run. Everything is a function of the seed and of the
//! calls: [`Fabric::fingerprint`] is the same for two identical runs.

mod build;
mod counters;
mod events;
mod host;
mod ip;
mod link;
mod meter;
mod names;
mod pool;
mod switch;
mod trace;

#[cfg(test)]
mod tests;

pub use build::FabricBuilder;
pub use counters::Counters;
pub use host::HostSpec;
pub use ip::Ip;
pub use link::{LinkSpec, one_way};
pub use meter::{Meter, OVERHEAD_BYTES};
pub use names::{CableId, HostId, NodeId, SwitchId};
pub use switch::{BufferSpec, EcnSpec, PfcSpec, SwitchSpec};

use events::{Events, What};
use host::Host;
use link::{Around, Egress};
use names::EgressId;
use pool::{PacketId, Pool};
use roce_port::fault::FaultSpec;
use roce_stack::{Instant, Nic};
use std::net::IpAddr;
use switch::Switch;
use trace::{Fate, Trace};

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event that no application needs to handle.
    Inside,
    /// A host's NIC did something: completions may be available.
    Host(HostId),
    /// The time of a [`Fabric::call_at`] has come.
    Call(u64),
}

/// Hosts, links and switches, and all packets in flight.
#[derive(Debug)]
pub struct Fabric {
    now: Instant,
    events: Events,
    pool: Pool,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    egresses: Vec<Egress>,
    counters: Counters,
    trace: Trace,
}

/// Splits a fabric into one of its links and what the link touches.
macro_rules! at_link {
    ($fabric:ident, $id:expr, $around:ident, $egress:ident, $do:expr) => {{
        let Fabric {
            now,
            events,
            pool,
            egresses,
            counters,
            trace,
            ..
        } = &mut *$fabric;
        let mut around = Around {
            now: *now,
            pool,
            events,
            counters,
            trace,
        };
        let $around = &mut around;
        let $egress = &mut egresses[$id.0];
        $do
    }};
}

impl Fabric {
    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What has happened to packets so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Two runs with the same fingerprint were the same, packet for packet.
    pub fn fingerprint(&self) -> u64 {
        self.trace.hash()
    }

    /// Prints every packet on stderr from now on.
    pub fn print(&mut self) {
        self.trace.print();
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// A host's address.
    pub fn address(&self, host: HostId) -> IpAddr {
        self.hosts[host.0].address
    }

    /// A host's NIC. After any call that may make it send, call [`Fabric::drive`].
    pub fn nic(&mut self, host: HostId) -> &mut Nic {
        let host = &mut self.hosts[host.0];
        // If the caller does not call `drive`, the host is driven at the latest when its link
        // becomes free.
        if let Some(egress) = host.egress {
            self.egresses[egress.0].wake_when_free(&mut self.events);
        }
        &mut host.nic
    }

    /// Lets a host's NIC send, and schedules its timer.
    pub fn drive(&mut self, id: HostId) {
        let Some(egress) = self.hosts[id.0].egress else {
            return;
        };
        if !self.hosts[id.0].paused {
            let Fabric {
                now,
                events,
                pool,
                egresses,
                counters,
                trace,
                hosts,
                ..
            } = &mut *self;
            let mut around = Around {
                now: *now,
                pool,
                events,
                counters,
                trace,
            };
            hosts[id.0].transmit(id, &mut around, &mut egresses[egress.0]);
        }
        self.arrange_wake(id);
    }

    /// Schedules a [`Step::Call`] with `token` at some time.
    pub fn call_at(&mut self, at: Instant, token: u64) {
        self.events.push(at.max(self.now), What::Call(token));
    }

    /// Changes the faults of a cable, in both directions.
    pub fn set_faults(&mut self, cable: CableId, spec: FaultSpec) {
        for direction in [0, 1] {
            self.egresses[2 * cable.0 + direction].faults.change(spec);
        }
    }

    /// Cuts a cable, or reconnects it. Packets in flight still arrive.
    pub fn set_down(&mut self, cable: CableId, down: bool) {
        for direction in [0, 1] {
            self.egresses[2 * cable.0 + direction].down = down;
        }
    }

    /// Stops a host, as if its process got no processor time, or resumes it.
    pub fn set_paused(&mut self, host: HostId, paused: bool) {
        self.hosts[host.0].paused = paused;
        if !paused {
            self.take_ring(host);
            let now = self.now;
            self.hosts[host.0].nic.handle_timeouts(now);
            self.drive(host);
        }
    }

    /// Restarts a host with a new NIC. Packets in its ring are lost.
    pub fn restart(&mut self, id: HostId) {
        self.restart_host(id, false);
    }

    /// Restarts a host whose new NIC draws the same numbers and keys again, in the same order, as
    /// if its random numbers were bad.
    pub fn restart_alike(&mut self, id: HostId) {
        self.restart_host(id, true);
    }

    fn restart_host(&mut self, id: HostId, alike: bool) {
        let host = &mut self.hosts[id.0];
        for packet in host.ring.drain(..) {
            self.pool.give_back(packet);
        }
        let egress = host.egress.map(|egress| &self.egresses[egress.0]);
        let max_packet_bytes = egress.map_or(0, |egress| egress.spec.max_packet_bytes);
        host.restart(max_packet_bytes, alike);
    }

    /// Handles the next event that is not after `until`; `None` if there is none.
    pub fn step(&mut self, until: Instant) -> Option<Step> {
        let (at, what) = self.events.pop(until)?;
        self.now = at;
        Some(match what {
            What::Call(token) => Step::Call(token),
            What::Arrive(link, packet) => match self.egresses[link.0].to {
                NodeId::Host(host) => self.arrive_at_host(link, host, packet),
                NodeId::Switch(switch) => {
                    self.arrive_at_switch(link, switch, packet);
                    Step::Inside
                }
            },
            What::Sent(link) => {
                self.egresses[link.0].sent();
                self.start(link);
                match self.egresses[link.0].from {
                    // The host may have waited for room.
                    NodeId::Host(host) if self.hosts[host.0].nic.wants_to_send() => {
                        self.drive(host);
                        Step::Host(host)
                    }
                    _ => Step::Inside,
                }
            }
            What::Pause(link, pause) => {
                let now = self.now;
                self.egresses[link.0].set_paused(now, pause);
                self.start(link);
                Step::Inside
            }
            What::Wake(host) => self.wake(host),
        })
    }

    /// A measure of the packets in flight, and one of the queued bytes of hosts and switches. A
    /// packet may count twice in each. Both are 0 when no event is left.
    pub fn under_way(&self) -> (usize, usize) {
        let queued = |egress: &Egress| egress.queued_bytes + egress.urgent_bytes;
        let queued: usize = self.egresses.iter().map(queued).sum();
        let waiting: usize = self.switches.iter().map(Switch::waiting).sum();
        let busy = |egress: &&Egress| !egress.is_idle(&self.events);
        let busy = self.egresses.iter().filter(busy).count();
        (self.pool.in_use() + busy, queued + waiting)
    }

    /// The measurements of one direction of a cable: what `from` sends on it. `None` if the cable
    /// is not connected to `from`.
    pub fn meter(&mut self, cable: CableId, from: impl Into<NodeId>) -> Option<&mut Meter> {
        let from = from.into();
        let ends = self.egresses.get_mut(2 * cable.0..2 * cable.0 + 2)?;
        let egress = ends.iter_mut().find(|egress| egress.from == from)?;
        Some(&mut egress.meter)
    }

    /// The number of pending events.
    pub fn pending(&self) -> usize {
        self.events.len()
    }

    fn arrive_at_host(&mut self, link: EgressId, id: HostId, packet: PacketId) -> Step {
        let host = &mut self.hosts[id.0];
        if host.ring.len() >= host.spec.ring_packets {
            self.counters.overrun += 1;
            self.drop_packet(link, packet);
            return Step::Inside;
        }
        let bytes = self.pool.get(packet).bytes();
        self.trace.note(self.now, link, Fate::Arrived, bytes);
        host.ring.push_back(packet);
        if host.paused {
            return Step::Inside;
        }
        if host.spec.poll_every.is_zero() {
            self.take_ring(id);
            self.drive(id);
            return Step::Host(id);
        }
        let poll = self.now + host.spec.poll_every;
        self.wake_at(id, poll);
        Step::Inside
    }

    /// Passes all waiting packets to the NIC.
    fn take_ring(&mut self, id: HostId) {
        while let Some(packet) = self.hosts[id.0].ring.pop_front() {
            let arrived = self.pool.get_mut(packet);
            if let Some((from, sent)) = arrived.sent {
                self.hosts[from.0].deliver(sent, arrived.bytes_mut());
            }
            let host = &mut self.hosts[id.0];
            let meta = host.sees(&arrived.meta);
            host.nic.receive(self.now, &meta, arrived.bytes());
            self.counters.delivered += 1;
            self.pool.give_back(packet);
        }
    }

    fn arrive_at_switch(&mut self, link: EgressId, id: SwitchId, packet: PacketId) {
        let arrived = self.pool.get(packet);
        let (len, meta) = (arrived.len(), arrived.meta);
        let to = self.host_at(meta.dst);
        let switch = &mut self.switches[id.0];
        let way = to.and_then(|to| switch.routes[to.0]);
        let fits = |way: &EgressId| {
            let egress = &self.egresses[way.0];
            egress.has_room(len, meta.traffic_class) && len <= egress.spec.max_packet_bytes
        };
        let Some(way) = way.filter(fits).filter(|_| switch.has_room(len)) else {
            self.counters.dropped += 1;
            if let Some(way) = way {
                self.egresses[way.0].meter.dropped += 1;
            }
            return self.drop_packet(link, packet);
        };
        let waiting = self.pool.get_mut(packet);
        let urgent = self.egresses[way.0].spec.is_urgent(meta.traffic_class);
        waiting.from = (!urgent).then_some(link);
        let capable = matches!(waiting.meta.traffic_class & 3, 1 | 2);
        if capable && switch.marks(self.egresses[way.0].queued_bytes) {
            waiting.meta.traffic_class |= 3;
            self.counters.marked += 1;
            self.egresses[way.0].meter.marked += 1;
        }
        if !urgent && switch.note_waiting(link, len) {
            self.pause(link, true);
        }
        at_link!(self, way, around, egress, egress.push(around, packet));
        self.start(way);
    }

    fn host_at(&self, address: IpAddr) -> Option<HostId> {
        let index = Ip::index(address)?;
        let host = self.hosts.get(index)?;
        (host.address == address).then_some(HostId(index))
    }

    /// Starts to send a link's next packet. If a switch sends it, its memory has room again.
    fn start(&mut self, link: EgressId) {
        let gone = at_link!(self, link, around, egress, egress.start(around));
        if let (Some((from, len)), NodeId::Switch(id)) = (gone, self.egresses[link.0].from) {
            self.switches[id.0].note_gone(from, len);
            while let Some(resumed) = self.switches[id.0].resume() {
                self.pause(resumed, false);
            }
        }
    }

    /// Sends a pause frame back along a link.
    fn pause(&mut self, link: EgressId, pause: bool) {
        self.counters.pauses += u64::from(pause);
        let arrives = self.now + self.egresses[link.0].spec.delay;
        self.events.push(arrives, What::Pause(link, pause));
    }

    fn drop_packet(&mut self, link: EgressId, packet: PacketId) {
        let bytes = self.pool.get(packet).bytes();
        self.trace.note(self.now, link, Fate::Dropped, bytes);
        self.pool.give_back(packet);
    }

    fn wake(&mut self, id: HostId) -> Step {
        let host = &mut self.hosts[id.0];
        if host.wake != Some(self.now) {
            // The wake-up was superseded by an earlier one, or was for a NIC that is gone.
            return Step::Inside;
        }
        host.wake = None;
        if host.paused {
            return Step::Inside;
        }
        self.take_ring(id);
        self.hosts[id.0].nic.handle_timeouts(self.now);
        self.drive(id);
        Step::Host(id)
    }

    /// Schedules the host's wake-up for its NIC's next timer.
    fn arrange_wake(&mut self, id: HostId) {
        if let Some(at) = self.hosts[id.0].nic.next_timeout() {
            self.wake_at(id, at);
        }
    }

    fn wake_at(&mut self, id: HostId, at: Instant) {
        let host = &mut self.hosts[id.0];
        let at = at.max(self.now);
        if host.wake.is_none_or(|wake| at < wake) {
            host.wake = Some(at);
            self.events.push(at, What::Wake(id));
        }
    }
}
