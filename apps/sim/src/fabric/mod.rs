//! Hosts, links and switches in virtual time.
//!
//! ```text
//!   Host: Nic ──► queue ═══ link ═══► Switch: queue ═══ link ═══► Host: ring ──► Nic
//!                   ▲ pause            │ tail drop, ECN mark
//!                   └──────────────────┘ loss, duplicates, corruption … on each link
//! ```
//!
//! A [`FabricBuilder`] builds a fabric. [`Fabric::step`] goes from event to event and reports which
//! host was affected, so that its application can run. A run depends only on the seed and on the
//! calls: [`Fabric::fingerprint`] is the same for two identical runs.

mod build;
mod changes;
mod events;
mod fate;
mod frame;
mod host;
mod link;
mod mark;
mod meter;
mod names;
mod outside;
mod pool;
mod routes;
mod seen;
mod switch;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

pub use build::FabricBuilder;
pub use fate::{Counters, DropReason, Drops, Fate};
pub use host::HostSpec;
pub use link::{LinkSpec, Port, one_way};
pub use meter::{Meter, OVERHEAD_BYTES};
pub use names::{CableId, HostId, Ip, NodeId, SwitchId};
pub use outside::Frame;
pub use seen::{SeenPacket, SeenPackets};
pub use switch::{BufferSpec, EcnSpec, PfcSpec, SwitchSpec};

use events::{Event, Events};
use host::Host;
use link::{Common, Egress};
use names::EgressId;
use pool::{PacketId, Pool};
use roce_stack::{Instant, Nic, RoceVersion, RxMeta};
use routes::{Routes, link_towards_member};
use std::collections::BTreeSet;
use std::net::IpAddr;
use switch::Switch;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event that no application needs to handle.
    Internal,
    /// A host's NIC did something: completions may be available.
    Host(HostId),
    /// The time of a [`Fabric::call_at`] has come.
    Call(u64),
}

/// Hosts, links and switches, with all packets in flight.
#[derive(Debug)]
pub struct Fabric {
    common: Common,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    /// The routes of each switch.
    routes: Vec<Routes>,
    egresses: Vec<Egress>,
}

impl Fabric {
    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.common.now
    }

    /// The packet counters so far.
    pub fn counters(&self) -> Counters {
        self.common.counters
    }

    /// A hash of all packets so far. Two runs with the same fingerprint were the same, packet for
    /// packet.
    pub fn fingerprint(&self) -> u64 {
        self.common.trace.hash()
    }

    /// Prints every packet on stderr from now on.
    pub fn print_packets(&mut self) {
        self.common.trace.print();
    }

    /// The two directions of each cable, in the order of the cables.
    pub fn ports(&self) -> impl Iterator<Item = Port> {
        self.egresses.iter().map(|egress| Port {
            cable: CableId(egress.id.0 / 2),
            from: egress.from,
            to: egress.to,
            link: egress.spec,
        })
    }

    /// Watches a cable in both directions: from now on [`Fabric::take_seen`] returns its packets,
    /// with at least the first `snap_bytes` bytes of each frame. Packets of simulated NICs get headers with
    /// link addresses that the fabric makes up.
    pub fn watch(&mut self, cable: CableId, snap_bytes: usize) {
        let ends = self.egresses.get(2 * cable.0..2 * cable.0 + 2);
        for egress in ends.unwrap_or_default() {
            let watch = self.common.trace.watch();
            watch.add(egress.id, egress.from, snap_bytes);
        }
    }

    /// Replaces the packets in `into` with those seen on watched cables since the last call. Call
    /// it often: the fabric keeps at most 64 MiB of them.
    pub fn take_seen(&mut self, into: &mut SeenPackets) {
        self.common.trace.watch().take(into);
    }

    /// The port of a host joins a multicast group: it receives packets to the group from now on,
    /// its own included.
    pub fn join(&mut self, host: HostId, group: IpAddr) {
        self.hosts[host.0].groups.insert(group);
    }

    /// The port of a host leaves a multicast group.
    pub fn leave(&mut self, host: HostId, group: IpAddr) {
        self.hosts[host.0].groups.remove(&group);
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
            self.egresses[egress.0].wake_when_free(&mut self.common.events);
        }
        &mut host.nic
    }

    /// Lets a host's NIC send, and schedules its timer.
    pub fn drive(&mut self, id: HostId) {
        let Some(egress) = self.hosts[id.0].egress else {
            return;
        };
        if !self.hosts[id.0].paused {
            let egress = &mut self.egresses[egress.0];
            self.hosts[id.0].transmit(id, &mut self.common, egress);
        }
        self.schedule_timer_wake(id);
    }

    /// Schedules a [`Step::Call`] with `token` at some time.
    pub fn call_at(&mut self, at: Instant, token: u64) {
        self.common
            .events
            .push(at.max(self.common.now), Event::Call(token));
    }

    /// Stops a host, as if its process got no processor time, or resumes it.
    pub fn set_paused(&mut self, host: HostId, paused: bool) {
        self.hosts[host.0].paused = paused;
        if !paused {
            self.drain_ring(host);
            let now = self.common.now;
            self.hosts[host.0].nic.handle_timeouts(now);
            self.drive(host);
        }
    }

    /// Restarts a host with a new NIC. Packets in its ring are lost.
    pub fn restart(&mut self, id: HostId) {
        self.restart_host(id, false);
    }

    /// Restarts a host with a new NIC that draws the same random numbers, and thus the same QP
    /// numbers and keys, in the same order. A host with a bad source of random numbers does this.
    pub fn restart_with_same_seed(&mut self, id: HostId) {
        self.restart_host(id, true);
    }

    fn restart_host(&mut self, id: HostId, same_seed: bool) {
        let host = &mut self.hosts[id.0];
        for packet in host.ring.drain(..) {
            self.common.pool.release(packet);
        }
        let egress = host.egress.map(|egress| &self.egresses[egress.0]);
        let max_packet_bytes = egress.map_or(0, |egress| egress.spec.max_packet_bytes);
        host.restart(max_packet_bytes, same_seed);
    }

    /// Handles the next event that is not after `until`; `None` if there is none.
    pub fn step(&mut self, until: Instant) -> Option<Step> {
        let (at, event) = self.common.events.pop(until)?;
        self.common.now = at;
        Some(match event {
            Event::Call(token) => Step::Call(token),
            Event::Arrive(link, packet) => match self.egresses[link.0].to {
                NodeId::Host(host) => self.arrive_at_host(link, host, packet),
                NodeId::Switch(switch) => {
                    self.arrive_at_switch(link, switch, packet);
                    Step::Internal
                }
            },
            Event::Loop(host, packet) => match self.hosts[host.0].egress {
                Some(link) => self.arrive_at_host(link, host, packet),
                None => Step::Internal,
            },
            Event::Sent(link) => {
                self.egresses[link.0].sent();
                self.start(link);
                match self.egresses[link.0].from {
                    // The host may have waited for space in the queue.
                    NodeId::Host(host) if self.hosts[host.0].spec.outside => Step::Host(host),
                    NodeId::Host(host) if self.hosts[host.0].nic.wants_to_send() => {
                        self.drive(host);
                        Step::Host(host)
                    }
                    _ => Step::Internal,
                }
            }
            Event::Pause(link, pause) => {
                let now = self.common.now;
                self.egresses[link.0].set_paused(now, pause);
                self.start(link);
                Step::Internal
            }
            Event::Wake(host) => self.wake(host),
        })
    }

    /// A measure of the packets in flight, and one of the queued bytes of hosts and switches. A
    /// packet may count twice in each. Both are 0 when no event is left.
    pub fn in_flight(&self) -> (usize, usize) {
        let queued = |egress: &Egress| egress.queued_bytes + egress.urgent_bytes;
        let queued: usize = self.egresses.iter().map(queued).sum();
        let waiting: usize = self.switches.iter().map(Switch::queued_bytes).sum();
        let busy = |egress: &&Egress| !egress.is_idle(&self.common.events);
        let busy = self.egresses.iter().filter(busy).count();
        (self.common.pool.in_use() + busy, queued + waiting)
    }

    /// The measurements of the direction of a cable on which `from` sends. `None` if the cable
    /// is not connected to `from`.
    pub fn meter(&mut self, cable: CableId, from: impl Into<NodeId>) -> Option<&mut Meter> {
        let from = from.into();
        let ends = self.egresses.get_mut(2 * cable.0..2 * cable.0 + 2)?;
        let egress = ends.iter_mut().find(|egress| egress.from == from)?;
        Some(&mut egress.meter)
    }

    /// The number of pending events.
    pub fn pending_events(&self) -> usize {
        self.common.events.len()
    }

    fn arrive_at_host(&mut self, link: EgressId, id: HostId, packet: PacketId) -> Step {
        let host = &mut self.hosts[id.0];
        let to = self.common.pool.get(packet).meta.dst;
        if to.is_multicast() && !host.groups.contains(&to) {
            self.common.pool.release(packet);
            return Step::Internal;
        }
        if host.ring.len() >= host.spec.ring_packets {
            self.common.counters.overrun += 1;
            self.drop_packet([link; 2], DropReason::RingFull, packet);
            return Step::Internal;
        }
        let queued_bytes = self.egresses[link.0].queued_bytes;
        let arrived = self.common.pool.get(packet);
        self.common
            .trace
            .record(self.common.now, link, Fate::Arrived, queued_bytes, arrived);
        host.ring.push_back(packet);
        if host.paused {
            return Step::Internal;
        }
        if host.spec.outside {
            return Step::Host(id);
        }
        if host.spec.poll_every.is_zero() {
            self.drain_ring(id);
            self.drive(id);
            return Step::Host(id);
        }
        let poll = self.common.now + host.spec.poll_every;
        self.wake_at(id, poll);
        Step::Internal
    }

    /// Passes all waiting packets to the NIC.
    fn drain_ring(&mut self, id: HostId) {
        while let Some(packet) = self.hosts[id.0].ring.pop_front() {
            let arrived = self.common.pool.get_mut(packet);
            if let Some((from, sent)) = arrived.sent {
                self.hosts[from.0].deliver(sent, arrived.bytes_mut());
            }
            let host = &mut self.hosts[id.0];
            let meta = host.received_meta(&arrived.meta);
            host.nic.receive(self.common.now, &meta, arrived.bytes());
            self.common.counters.delivered += 1;
            self.common.pool.release(packet);
        }
    }

    fn arrive_at_switch(&mut self, link: EgressId, id: SwitchId, packet: PacketId) {
        let meta = self.common.pool.get(packet).meta;
        let routes = &self.routes[id.0];
        if routes.forgotten || !meta.dst.is_multicast() {
            let to = self.host_at(meta.dst).filter(|_| !routes.forgotten);
            let output = to.and_then(|to| routes.choose(to, &meta));
            return self.forward(link, id, output, packet);
        }
        for output in self.group_outputs(link, id, &meta) {
            let copy = self.common.pool.duplicate(packet);
            self.forward(link, id, Some(output), copy);
        }
        self.common.pool.release(packet);
    }

    /// The links of a switch that lead to members of a packet's group, other than the way back.
    fn group_outputs(&self, link: EgressId, id: SwitchId, meta: &RxMeta) -> BTreeSet<EgressId> {
        let came_from = self.egresses[link.0].from;
        let nodes = (&self.egresses[..], &self.routes[..]);
        let root = self.host_at(meta.src).unwrap_or(HostId(0));
        let members = self.hosts.iter().filter(|h| h.groups.contains(&meta.dst));
        members
            .filter_map(|member| link_towards_member(nodes, id, (root, member.egress?), meta))
            .filter(|output| self.egresses[output.0].to != came_from)
            .collect()
    }

    /// Queues a packet at a switch, or drops it.
    fn forward(
        &mut self,
        link: EgressId,
        id: SwitchId,
        output: Option<EgressId>,
        packet: PacketId,
    ) {
        let arrived = self.common.pool.get(packet);
        let (len, queue_len, meta) = (arrived.len(), arrived.queue_len(), arrived.meta);
        let Some(output) = output else {
            self.common.counters.dropped += 1;
            return self.drop_packet([link; 2], DropReason::NoRoute, packet);
        };
        let egress = &self.egresses[output.0];
        let switch = &mut self.switches[id.0];
        if let Err(reason) = check_space(egress, switch, [len, queue_len], meta.traffic_class) {
            self.common.counters.dropped += 1;
            return self.drop_packet([link, output], reason, packet);
        }
        let waiting = self.common.pool.get_mut(packet);
        let urgent = self.egresses[output.0].spec.is_urgent(meta.traffic_class);
        waiting.from = (!urgent).then_some(link);
        // A switch sees no ECN bits in a GRH.
        let capable = waiting.meta.version() == RoceVersion::V2
            && matches!(waiting.meta.traffic_class & 3, 1 | 2);
        if capable && switch.should_mark(self.egresses[output.0].queued_bytes) {
            waiting.mark();
            waiting.marked_at = Some(self.egresses[output.0].queued_bytes);
            self.common.counters.marked += 1;
            self.egresses[output.0].meter.marked += 1;
        }
        if !urgent && switch.packet_queued(link, queue_len) {
            self.pause(link, true);
        }
        self.egresses[output.0].push(&mut self.common, packet);
        self.start(output);
    }

    fn host_at(&self, address: IpAddr) -> Option<HostId> {
        let index = Ip::index(address)?;
        let host = self.hosts.get(index)?;
        (host.address == address).then_some(HostId(index))
    }

    /// Starts to send a link's next packet. If the sender is a switch, frees the packet's memory
    /// and resumes links.
    fn start(&mut self, link: EgressId) {
        let left = self.egresses[link.0].start(&mut self.common);
        if let (Some((from, queue_len)), NodeId::Switch(id)) = (left, self.egresses[link.0].from) {
            self.switches[id.0].packet_left(from, queue_len);
            while let Some(resumed) = self.switches[id.0].resume() {
                self.pause(resumed, false);
            }
        }
    }

    /// Sends a pause frame back along a link.
    fn pause(&mut self, link: EgressId, pause: bool) {
        self.common.counters.pauses += u64::from(pause);
        let arrives = self.common.now + self.egresses[link.0].spec.delay;
        self.common.events.push(arrives, Event::Pause(link, pause));
    }

    /// Drops a packet that came on the first link, at the port of the second.
    fn drop_packet(&mut self, links: [EgressId; 2], reason: DropReason, packet: PacketId) {
        let port = &mut self.egresses[links[1].0];
        port.meter.drops.add(reason);
        let (fate, queued_bytes) = (Fate::Dropped(reason), port.queued_bytes);
        let dropped = self.common.pool.get(packet);
        self.common
            .trace
            .record_drop(self.common.now, links, fate, queued_bytes, dropped);
        self.common.pool.release(packet);
    }

    fn wake(&mut self, id: HostId) -> Step {
        let host = &mut self.hosts[id.0];
        if host.wake != Some(self.common.now) {
            // The wake-up was superseded by an earlier one, or was for a NIC that is gone.
            return Step::Internal;
        }
        host.wake = None;
        if host.paused {
            return Step::Internal;
        }
        self.drain_ring(id);
        self.hosts[id.0].nic.handle_timeouts(self.common.now);
        self.drive(id);
        Step::Host(id)
    }

    /// Schedules the host's wake-up for its NIC's next timer.
    fn schedule_timer_wake(&mut self, id: HostId) {
        if let Some(at) = self.hosts[id.0].nic.next_timeout() {
            self.wake_at(id, at);
        }
    }

    fn wake_at(&mut self, id: HostId, at: Instant) {
        let host = &mut self.hosts[id.0];
        let at = at.max(self.common.now);
        if host.wake.is_none_or(|wake| at < wake) {
            host.wake = Some(at);
            self.common.events.push(at, Event::Wake(id));
        }
    }
}

/// Checks that a port of a switch can queue a packet of `len` bytes, which has `queue_len` bytes in
/// queues.
///
/// # Errors
/// Why not.
fn check_space(
    egress: &Egress,
    switch: &Switch,
    [len, queue_len]: [usize; 2],
    traffic_class: u8,
) -> Result<(), DropReason> {
    if len > egress.spec.max_packet_bytes {
        Err(DropReason::TooLong)
    } else if !egress.has_space(queue_len, traffic_class) {
        Err(DropReason::QueueFull)
    } else if !switch.has_space(queue_len) {
        Err(DropReason::MemoryFull)
    } else {
        Ok(())
    }
}
