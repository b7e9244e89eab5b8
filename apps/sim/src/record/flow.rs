//! A flow and its table.

use super::PortId;
use super::curve::Curve;
use super::frame::FlowKey;
use crate::fabric::Drops;
use roce_stack::{Duration, Instant};
use std::collections::HashMap;

/// The most links of one flow between switches whose bytes are counted.
const MAX_LINKS: usize = 16;

/// The packets of one direction of a connection.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// Identifies it.
    pub key: FlowKey,
    /// Packets that the source sent on its cable.
    pub sent_packets: u64,
    /// Bytes of their frames.
    pub sent_bytes: u64,
    /// Packets that arrived at a host.
    pub arrived_packets: u64,
    /// Bytes of their frames.
    pub arrived_bytes: u64,
    /// Bytes that arrived after all headers. A flow of acknowledgements has none.
    pub payload_bytes: u64,
    /// Packets that arrived with a "congestion experienced" mark.
    pub marked: u64,
    /// Packets that were dropped.
    pub drops: Drops,
    /// When the first packet was seen.
    pub first: Instant,
    /// When the last packet arrived, or was sent if none arrived.
    pub last: Instant,
    /// Bytes of frames on each link between switches, each named by the port that sends. For a
    /// flow with more than 16 such links, only the first 16 are here.
    pub links: Vec<(PortId, u64)>,
    /// Bytes of frames that arrived, in each interval.
    pub arrivals: Curve<u64>,
    /// Bytes that arrived since the last step.
    pub(super) pending: u64,
}

impl FlowRecord {
    fn new(key: FlowKey, first: Instant) -> Self {
        Self {
            key,
            sent_packets: 0,
            sent_bytes: 0,
            arrived_packets: 0,
            arrived_bytes: 0,
            payload_bytes: 0,
            marked: 0,
            drops: Drops::default(),
            first,
            last: first,
            links: Vec::new(),
            arrivals: Curve::default(),
            pending: 0,
        }
    }

    /// The time from its first packet to its last one: its completion time, if it is complete.
    pub fn time(&self) -> Duration {
        self.last.saturating_duration_since(self.first)
    }

    /// The mean rate of its frames in bits per second, from its first packet to its last one.
    pub fn bits_per_sec(&self) -> f64 {
        let seconds = self.time().as_secs_f64();
        if seconds > 0.0 {
            self.arrived_bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Whether it carries data, not only acknowledgements.
    pub fn has_data(&self) -> bool {
        self.payload_bytes > 0
    }

    pub(super) fn took(&mut self, link: PortId, bytes: u64) {
        if let Some((_, sum)) = self.links.iter_mut().find(|(known, _)| *known == link) {
            *sum += bytes;
        } else if self.links.len() < MAX_LINKS {
            self.links.push((link, bytes));
        }
    }
}

/// Flows in the order of their first packets, at most a fixed number of them.
#[derive(Clone, Debug)]
pub(super) struct FlowTable {
    pub(super) flows: Vec<FlowRecord>,
    index: HashMap<FlowKey, usize>,
    limit: usize,
}

impl FlowTable {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            flows: Vec::new(),
            index: HashMap::new(),
            limit,
        }
    }

    /// The flow with this key, new if there is none; `None` if the table is full.
    pub(super) fn get(&mut self, key: FlowKey, now: Instant) -> Option<&mut FlowRecord> {
        let index = match self.index.get(&key) {
            Some(index) => *index,
            None if self.flows.len() >= self.limit => return None,
            None => {
                let index = self.flows.len();
                self.index.insert(key, index);
                self.flows.push(FlowRecord::new(key, now));
                index
            }
        };
        self.flows.get_mut(index)
    }
}
