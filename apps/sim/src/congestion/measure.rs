//! Computes the measured quantities from the snapshots: the bytes sent and completed, and the times
//! paused.

use super::flow::{Flow, MTU};
use super::outcome::{Completion, Outcome, Phase, Times, jain, percentile};
use super::run::Run;
use super::scenario::FlowPlan;
use super::snapshots::{Snapshot, measurement_start, phase_edges};
use super::topology::Direction;
use crate::fabric::{HostId, Meter, OVERHEAD_BYTES};
use roce_stack::{Duration, Instant, Stat};

/// The length of BTH and ICRC.
const HEADERS_BYTES: u64 = 16;

impl Run<'_> {
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let at = self.fabric.now();
        let Self { fabric, links, .. } = self;
        let wire = links
            .iter()
            .map(|(cable, from)| {
                fabric
                    .meter(*cable, *from)
                    .map_or(0, |meter| meter.wire_bytes)
            })
            .collect();
        let paused = (0..fabric.hosts())
            .map(HostId)
            .filter_map(|host| {
                let (link, _) = self.network.link_of(host)?;
                let meter: &mut Meter = fabric.meter(link, host)?;
                Some(meter.paused_for(at))
            })
            .sum();
        Snapshot {
            at,
            wire,
            done: self.flows.iter().map(|flow| flow.done).collect(),
            pauses: fabric.counters().pauses,
            paused,
        }
    }

    fn phases(&self) -> Vec<Phase> {
        if self.scenario.is_mix() {
            return Vec::new();
        }
        let edges = phase_edges(self.scenario);
        let phase = |(edge, snapshots): (&[Duration], &[Snapshot])| {
            let [begin, end] = [&snapshots[0], &snapshots[1]];
            let time = end.at.saturating_duration_since(begin.at).as_secs_f64();
            let is_active = |flow: &Flow| {
                flow.plan.start < edge[1] && flow.plan.stop.is_none_or(|stop| stop >= edge[1])
            };
            let goodput: Vec<(usize, f64)> = (0..self.flows.len())
                .filter(|&number| is_active(&self.flows[number]))
                .map(|number| {
                    let bytes = end.done[number] - begin.done[number];
                    (number, bytes as f64 * 8e-9 / time)
                })
                .collect();
            let shares: Vec<f64> = goodput.iter().map(|(_, rate)| *rate).collect();
            let utilisation = |(number, (link, _)): (usize, &Direction)| {
                let bits_per_sec = self.network.links[link.0].spec.bits_per_sec;
                let capacity_bytes = bits_per_sec as f64 / 8.0 * time;
                (end.wire[number] - begin.wire[number]) as f64 / capacity_bytes
            };
            Phase {
                from_ms: edge[0].as_secs_f64() * 1e3,
                to_ms: edge[1].as_secs_f64() * 1e3,
                jain: jain(&shares).unwrap_or(f64::NAN),
                goodput,
                utilisation: self.links.iter().enumerate().map(utilisation).collect(),
            }
        };
        edges
            .windows(2)
            .zip(self.snapshots.chunks_exact(2))
            .map(phase)
            .collect()
    }

    /// The time that a flow of `bytes` bytes takes if it has the path to itself. Links between
    /// switches do not count.
    fn time_alone(&self, plan: &FlowPlan, bytes: u64) -> Duration {
        let ends = [plan.from, plan.to].map(HostId);
        let links = ends.map(|host| self.network.link_of(host));
        let specs = links
            .into_iter()
            .flatten()
            .map(|(link, _)| self.network.links[link.0].spec);
        let bits_per_sec = specs
            .clone()
            .map(|spec| spec.bits_per_sec)
            .min()
            .unwrap_or(1);
        let delay: Duration = specs.map(|spec| spec.delay).sum();
        let packets = bytes.div_ceil(MTU.bytes() as u64);
        let headers = HEADERS_BYTES + OVERHEAD_BYTES;
        let bits = (bytes + packets * headers) * 8;
        let ns = bits as f64 * 1e9 / bits_per_sec as f64;
        // There and back.
        Duration::from_nanos(ns as u64) + delay * 2
    }

    fn times(&self) -> Option<Times> {
        if !self.scenario.is_mix() {
            return None;
        }
        let done = self.flows.iter().filter_map(|flow| {
            let begin = Instant::ZERO + flow.plan.start;
            let took = flow.finished?.saturating_duration_since(begin);
            let bytes = flow.plan.bytes?;
            Some(Completion {
                bytes,
                milliseconds: took.as_secs_f64() * 1e3,
                alone_ms: self.time_alone(&flow.plan, bytes).as_secs_f64() * 1e3,
            })
        });
        Some(Times::of(self.flows.len(), done.collect()))
    }

    pub(super) fn outcome(mut self, seed: u64) -> Outcome {
        let end = self.snapshot();
        let middle = Instant::ZERO + measurement_start(self.scenario);
        let measured_from = self
            .snapshots
            .iter()
            .find(|snapshot| snapshot.at >= middle)
            .unwrap_or(&end);
        let hosts = self.fabric.hosts();
        let time = end
            .at
            .saturating_duration_since(measured_from.at)
            .as_secs_f64();
        let paused =
            (end.paused - measured_from.paused).as_secs_f64() / (hosts as f64 * time).max(1e-12);
        let peaks = |from: Instant| {
            let rows = self
                .rows
                .iter()
                .filter(move |row| row.ms * 1e6 > from.as_nanos() as f64);
            rows.flat_map(|row| &row.peak).copied().max().unwrap_or(0)
        };
        let seconds = end.at.as_nanos() as f64 / 1e9;
        let counters = self.fabric.counters();
        let phases = self.phases();
        let times = self.times();
        let mut queue_samples = std::mem::take(&mut self.queue_samples);
        let queue_sum: f64 = queue_samples.iter().copied().map(f64::from).sum();
        let queue_mean = queue_sum / queue_samples.len().max(1) as f64;
        let mut queue = |percent| percentile(&mut queue_samples, percent).unwrap_or(0) as usize;
        let stats = [Stat::Retransmitted, Stat::CnpsSent].map(|stat| {
            let of = |host| self.fabric.nic(HostId(host)).counters().stat(stat);
            (0..hosts).map(of).sum()
        });
        Outcome {
            scenario: self.scenario.name,
            algorithm: self.scenario.algorithm,
            loss: self.scenario.loss,
            seed,
            fingerprint: self.fabric.fingerprint(),
            milliseconds: seconds * 1e3,
            phases,
            goodput: end.done.iter().sum::<u64>() as f64 * 8e-9 / seconds,
            queue_mean,
            queue_p50: queue(50.0),
            queue_p99: queue(99.0),
            queue_max: peaks(Instant::ZERO),
            queue_max_late: peaks(middle),
            dropped: counters.dropped,
            retransmitted: stats[0],
            marked: counters.marked,
            cnps: stats[1],
            pauses: [counters.pauses, counters.pauses - measured_from.pauses],
            paused,
            times,
            rows: self.rows,
        }
    }
}
