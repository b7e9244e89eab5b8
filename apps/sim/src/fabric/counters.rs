//! Packet counters of the fabric.

use serde::Serialize;

/// Packets so far, by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Sent by hosts.
    pub sent: u64,
    /// Carried by links.
    pub carried: u64,
    /// Handed to a host's NIC.
    pub delivered: u64,
    /// Lost on a link.
    pub lost: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Delayed, so that others could overtake them.
    pub reordered: u64,
    /// Arrived with a flipped bit.
    pub corrupted: u64,
    /// Dropped by a switch: its queue was full, the next link carries no packets of that size, or
    /// it has no route.
    pub dropped: u64,
    /// Dropped by a host because its ring was full.
    pub overrun: u64,
    /// Marked "congestion experienced".
    pub marked: u64,
    /// Pause frames.
    pub pauses: u64,
}

impl Counters {
    /// Adds those of another fabric.
    pub fn add(&mut self, other: &Self) {
        let Self {
            sent,
            carried,
            delivered,
            lost,
            duplicated,
            reordered,
            corrupted,
            dropped,
            overrun,
            marked,
            pauses,
        } = other;
        self.sent += sent;
        self.carried += carried;
        self.delivered += delivered;
        self.lost += lost;
        self.duplicated += duplicated;
        self.reordered += reordered;
        self.corrupted += corrupted;
        self.dropped += dropped;
        self.overrun += overrun;
        self.marked += marked;
        self.pauses += pauses;
    }
}
