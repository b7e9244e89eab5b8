//! The fates of packets, their numbers by fate, and why packets are dropped.

use serde::Serialize;
use std::fmt;

/// The fate of a packet at one direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The node began to send it.
    Sent,
    /// The node, a switch, marked it "congestion experienced" and then began to send it.
    Marked,
    /// It arrived at the host at the far end.
    Arrived,
    /// It was dropped.
    Dropped(DropReason),
}

impl Fate {
    /// Its number in fingerprints; `None` if fingerprints leave it out, because the fates that
    /// they include follow from it.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Sent | Self::Marked => None,
            Self::Dropped(DropReason::Lost | DropReason::LinkDown) => Some(1),
            Self::Arrived => Some(2),
            Self::Dropped(_) => Some(3),
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The queue of the switch's port was full.
    QueueFull,
    /// The memory that all ports of the switch share was full.
    MemoryFull,
    /// The switch has no route to the destination.
    NoRoute,
    /// The packet is longer than the next link carries.
    TooLong,
    /// The link's faults lost it.
    Lost,
    /// The link is down.
    LinkDown,
    /// The receive ring of the host was full.
    RingFull,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::MemoryFull,
        Self::NoRoute,
        Self::TooLong,
        Self::Lost,
        Self::LinkDown,
        Self::RingFull,
    ];

    /// The reason in words: `queue full`.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue full",
            Self::MemoryFull => "switch memory full",
            Self::NoRoute => "no route",
            Self::TooLong => "too long for the link",
            Self::Lost => "lost on the link",
            Self::LinkDown => "link down",
            Self::RingFull => "receive ring full",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Numbers of dropped packets, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Those for one reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Those for all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons for which packets were dropped, each with the number of packets.
    pub fn reasons(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let all = DropReason::ALL.into_iter();
        all.map(|reason| (reason, self.of(reason)))
            .filter(|(_, packets)| *packets > 0)
    }

    /// Counts a dropped packet.
    pub fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Adds the drops of another port.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, packets) in self.0.iter_mut().zip(other.0) {
            *sum += packets;
        }
    }

    /// The drops since `earlier`, which this port had at an earlier time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (packets, before) in since.0.iter_mut().zip(earlier.0) {
            *packets = packets.saturating_sub(before);
        }
        since
    }
}

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
