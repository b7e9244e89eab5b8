//! The measured quantities: what was sent, completed and paused between two times.

use super::flow::{Flow, MTU};
use super::marks::{Mark, edges_of, measured_from};
use super::metrics::{jain, percentile};
use super::outcome::{Completion, Outcome, Phase, Times};
use super::run::Run;
use crate::fabric::{HostId, Meter, OVERHEAD_BYTES};
use roce_stack::{Duration, Instant, Stat};

/// BTH and ICRC.
const HEADERS_BYTES: u64 = 16;

impl Run<'_> {
    pub(super) fn mark(&mut self) -> Mark {
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
            .filter_map(|host| {
                let (cable, _) = self.scenario.topology.link_to(host);
                let meter: Option<&mut Meter> = fabric.meter(cable, HostId(host));
                meter.map(|meter| meter.paused_for(at))
            })
            .sum();
        Mark {
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
        let edges = edges_of(self.scenario);
        let phase = |(edge, marks): (&[Duration], &[Mark])| {
            let [begin, end] = [&marks[0], &marks[1]];
            let time = end.at.saturating_duration_since(begin.at).as_secs_f64();
            let there = |flow: &Flow| {
                flow.plan.start < edge[1] && flow.plan.stop.is_none_or(|stop| stop >= edge[1])
            };
            let goodput: Vec<(usize, f64)> = (0..self.flows.len())
                .filter(|&number| there(&self.flows[number]))
                .map(|number| {
                    let bytes = end.done[number] - begin.done[number];
                    (number, bytes as f64 * 8e-9 / time)
                })
                .collect();
            let shares: Vec<f64> = goodput.iter().map(|(_, rate)| *rate).collect();
            let whole = self.scenario.bits_per_sec as f64 / 8.0 * time;
            let busy = |(after, before): (&u64, &u64)| (after - before) as f64 / whole;
            Phase {
                from_ms: edge[0].as_secs_f64() * 1e3,
                to_ms: edge[1].as_secs_f64() * 1e3,
                jain: jain(&shares).unwrap_or(f64::NAN),
                goodput,
                utilisation: end.wire.iter().zip(&begin.wire).map(busy).collect(),
            }
        };
        edges
            .windows(2)
            .zip(self.marks.chunks_exact(2))
            .map(phase)
            .collect()
    }

    /// The duration of a flow that has the path to itself.
    fn alone(&self, bytes: u64) -> Duration {
        let packets = bytes.div_ceil(MTU.bytes() as u64);
        let headers = HEADERS_BYTES + OVERHEAD_BYTES;
        let bits = (bytes + packets * headers) * 8;
        let ns = bits as f64 * 1e9 / self.scenario.bits_per_sec as f64;
        // There and back, through a switch.
        Duration::from_nanos(ns as u64) + self.scenario.delay * 4
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
                alone_ms: self.alone(bytes).as_secs_f64() * 1e3,
            })
        });
        Some(Times::of(self.flows.len(), done.collect()))
    }

    pub(super) fn outcome(mut self, seed: u64) -> Outcome {
        let end = self.mark();
        let middle = Instant::ZERO + measured_from(self.scenario);
        let late = self
            .marks
            .iter()
            .find(|mark| mark.at >= middle)
            .unwrap_or(&end);
        let hosts = self.fabric.hosts();
        let time = end.at.saturating_duration_since(late.at).as_secs_f64();
        let paused = (end.paused - late.paused).as_secs_f64() / (hosts as f64 * time).max(1e-12);
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
        let mut looks = std::mem::take(&mut self.looks);
        let mut queue = |percent| percentile(&mut looks, percent).unwrap_or(0) as usize;
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
            queue_p50: queue(50.0),
            queue_p99: queue(99.0),
            queue_max: peaks(Instant::ZERO),
            queue_max_late: peaks(middle),
            dropped: counters.dropped,
            retransmitted: stats[0],
            marked: counters.marked,
            cnps: stats[1],
            pauses: [counters.pauses, counters.pauses - late.pauses],
            paused,
            times,
            rows: self.rows,
        }
    }
}
