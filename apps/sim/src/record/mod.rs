//! Records a fabric's ports and flows over time.
//!
//! ```text
//! Fabric ── take_seen ──► SeenPackets ── Recorder::add ──► flows
//!        ── meters ───────────────────── Recorder::step ──► curves of ports and flows
//! ```
//!
//! A [`Recorder`] watches all cables. The caller takes the seen packets often, gives them to
//! [`Recorder::add`], and calls [`Recorder::step`] at fixed intervals of the fabric's time. Memory
//! is bounded by [`Limits`]: with the greatest number of points, every two of them become one.

mod axis;
mod curve;
mod flow;
mod frame;
mod totals;

#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use curve::{Add, Curve};
pub use flow::FlowRecord;
pub use frame::FlowKey;
pub use totals::PortTotals;

use crate::congestion::{jain, percentile};
use crate::fabric::{CableId, Fabric, Fate, NodeId, Port, SeenPacket, SeenPackets};
use flow::FlowTable;
use roce_stack::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bytes of each frame that a recorder needs: the longest headers up to the BTH, with VLAN tags and
/// IPv4 or IPv6 options.
const SNAP_BYTES: usize = 192;

/// Identifies a port by its cable and the node that sends.
pub type PortId = (CableId, NodeId);

/// The limits of a recorder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most flows. Packets of further flows are only counted.
    pub flows: usize,
    /// The most points of a curve.
    pub points: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 4096,
            points: 600,
        }
    }
}

/// The record of one port.
#[derive(Clone, Debug)]
pub struct PortRecord {
    /// The port.
    pub port: Port,
    /// Everything since the recorder began.
    pub totals: PortTotals,
    /// The totals of each interval.
    pub curve: Curve<PortTotals>,
    /// The totals at the last step, since time 0.
    last: PortTotals,
}

/// Packets that belong to no recorded flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Packets sent by hosts that have no IP header, such as ARP, or a malformed one.
    pub other_packets: u64,
    /// Packets sent by hosts, of flows beyond the limit.
    pub packets_beyond_limit: u64,
    /// Packets at any port that the fabric left out, because the caller did not take the others
    /// soon enough.
    pub missed: u64,
}

/// The ports and flows of a fabric over time.
#[derive(Clone, Debug)]
pub struct Recorder {
    axis: Axis,
    ports: Vec<PortRecord>,
    flows: FlowTable,
    /// CNPs by source and destination.
    cnps: BTreeMap<(IpAddr, IpAddr), u64>,
    unrecorded: Unrecorded,
    limits: Limits,
}

impl Recorder {
    /// Watches all cables of a fabric from now on. The recorder alone takes the meters' peaks.
    pub fn new(fabric: &mut Fabric, limits: Limits) -> Self {
        let now = fabric.now();
        let ports: Vec<Port> = fabric.ports().collect();
        let record = |port: Port| {
            fabric.watch(port.cable, SNAP_BYTES);
            let meter = fabric.meter(port.cable, port.from);
            let last = meter.map(|meter| {
                meter.take_peak();
                PortTotals::of(meter, now)
            });
            PortRecord {
                port,
                totals: PortTotals::default(),
                curve: Curve::default(),
                last: last.unwrap_or_default(),
            }
        };
        Self {
            axis: Axis::new(now, limits.points),
            ports: ports.into_iter().map(record).collect(),
            flows: FlowTable::new(limits.flows),
            cnps: BTreeMap::new(),
            unrecorded: Unrecorded::default(),
            limits,
        }
    }

    /// Adds packets that were seen, in order.
    pub fn add(&mut self, packets: &SeenPackets) {
        for packet in packets.iter() {
            self.add_packet(&packet);
        }
        self.unrecorded.missed += packets.missed();
    }

    fn add_packet(&mut self, packet: &SeenPacket<'_>) {
        let is_sent = matches!(packet.fate, Fate::Sent | Fate::Marked);
        let at_source = is_sent && matches!(packet.from, NodeId::Host(_));
        let Some(parsed) = frame::parse(packet.frame) else {
            self.unrecorded.other_packets += u64::from(at_source);
            return;
        };
        if parsed.is_cnp {
            if at_source {
                self.add_cnp(parsed.key.src, parsed.key.dst);
            }
            return;
        }
        let Some(flow) = self.flows.get(parsed.key, packet.time) else {
            self.unrecorded.packets_beyond_limit += u64::from(at_source);
            return;
        };
        let bytes = packet.frame_len as u64;
        match packet.fate {
            Fate::Sent | Fate::Marked if at_source => {
                flow.sent_packets += 1;
                flow.sent_bytes += bytes;
                if flow.arrived_packets == 0 {
                    flow.last = packet.time;
                }
            }
            Fate::Sent | Fate::Marked => {
                let to = port_index(&self.ports, packet).map(|index| self.ports[index].port.to);
                if matches!(to, Some(NodeId::Switch(_))) {
                    flow.took((packet.cable, packet.from), bytes);
                }
            }
            Fate::Arrived => {
                flow.arrived_packets += 1;
                flow.arrived_bytes += bytes;
                flow.payload_bytes += parsed.payload_bytes as u64;
                flow.marked += u64::from(parsed.is_marked);
                flow.last = packet.time;
                flow.pending += bytes;
            }
            Fate::Dropped(reason) => flow.drops.add(reason),
        }
    }

    fn add_cnp(&mut self, src: IpAddr, dst: IpAddr) {
        if let Some(count) = self.cnps.get_mut(&(src, dst)) {
            *count += 1;
        } else if self.cnps.len() < self.limits.flows {
            self.cnps.insert((src, dst), 1);
        }
    }

    /// Ends a step at the fabric's time: adds what the ports and flows did since the last step to
    /// the curves.
    pub fn step(&mut self, fabric: &mut Fabric) {
        let now = fabric.now();
        if self.axis.is_full() {
            self.halve();
        }
        let index = self.axis.step(now);
        for record in &mut self.ports {
            let Port { cable, from, .. } = record.port;
            if let Some(meter) = fabric.meter(cable, from) {
                let totals = PortTotals::of(meter, now);
                let mut step = totals.since(&record.last);
                step.longest_queue = meter.take_peak();
                record.totals.add(&step);
                record.curve.add(index, &step);
                record.last = totals;
            }
        }
        for flow in &mut self.flows.flows {
            let bytes = std::mem::take(&mut flow.pending);
            if bytes > 0 {
                flow.arrivals.add(index, &bytes);
            }
        }
    }

    fn halve(&mut self) {
        self.axis.halve();
        for record in &mut self.ports {
            record.curve.halve();
        }
        for flow in &mut self.flows.flows {
            flow.arrivals.halve();
        }
    }

    /// The intervals of all curves.
    pub fn axis(&self) -> &Axis {
        &self.axis
    }

    /// The ports, in the order of the cables: the first end of a cable, then the second.
    pub fn ports(&self) -> &[PortRecord] {
        &self.ports
    }

    /// The flows, in the order of their first packets.
    pub fn flows(&self) -> &[FlowRecord] {
        &self.flows.flows
    }

    /// The flows that carry data, in the order of their first packets.
    pub fn data_flows(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows().iter().filter(|flow| flow.has_data())
    }

    /// The number of CNPs from one host to another, of all flows from the second to the first. A
    /// CNP does not name the flow that it is for.
    pub fn cnps(&self, src: IpAddr, dst: IpAddr) -> u64 {
        self.cnps.get(&(src, dst)).copied().unwrap_or(0)
    }

    /// Packets that belong to no flow here.
    pub fn unrecorded(&self) -> Unrecorded {
        self.unrecorded
    }

    /// Jain's index of fairness of the mean rates of flows that carry data; `None` if there are
    /// none.
    pub fn fairness(&self) -> Option<f64> {
        let rates: Vec<f64> = self.data_flows().map(FlowRecord::bits_per_sec).collect();
        jain(&rates)
    }

    /// The times of flows that carry data, each from the first packet to the last one. A flow that
    /// is not complete counts up to its last packet.
    pub fn completion_times(&self) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.data_flows().map(FlowRecord::time).collect();
        times.sort_unstable();
        times
    }

    /// The completion time that `percent` percent of the flows that carry data do not exceed;
    /// `None` if there are none.
    pub fn completion_time(&self, percent: f64) -> Option<Duration> {
        percentile(&mut self.completion_times(), percent)
    }
}

/// The port at which a packet was seen. Each cable has two, one after the other.
fn port_index(ports: &[PortRecord], packet: &SeenPacket<'_>) -> Option<usize> {
    let first = packet.cable.0.checked_mul(2)?;
    let both = ports.get(first..first + 2)?;
    let second = both.iter().position(|end| end.port.from == packet.from)?;
    Some(first + second)
}
