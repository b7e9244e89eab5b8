//! Switches: tail drop, ECN marks, and pause frames.

use super::EgressId;
use crate::dice::Dice;
use std::collections::BTreeMap;

/// The queueing behaviour of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Marks packets "congestion experienced", as DCQCN requires.
    pub ecn: Option<EcnSpec>,
    /// Priority flow control: stops the senders before packets must be dropped.
    pub pfc: Option<PfcSpec>,
    /// Memory that all ports share, with flow control whose threshold follows from it.
    pub buffer: Option<BufferSpec>,
}

/// Memory that all ports of a switch share. A link is paused when the queued bytes that arrived on
/// it exceed the free bytes. The DCQCN paper configures its switches like this (section 4, with
/// beta = 8 for eight priorities, of which one is used).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// The capacity for queued packets. A packet that does not fit is dropped.
    pub bytes: usize,
    /// The part reserved for packets still in flight after a pause frame was sent, for all links
    /// together. It does not count as free.
    pub headroom_bytes: usize,
    /// A paused link resumes this many bytes below the threshold.
    pub hysteresis_bytes: usize,
}

/// Marking with a probability that grows with the queue length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnSpec {
    /// Up to this queue length, no packet is marked.
    pub kmin_bytes: usize,
    /// From this queue length on, all packets are marked.
    pub kmax_bytes: usize,
    /// The probability just below `kmax_bytes`, in percent.
    pub pmax_percent: u8,
}

/// The thresholds for pausing senders, applied to each incoming link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcSpec {
    /// If the queued bytes of one link exceed this, its sender is paused.
    pub pause_bytes: usize,
    /// Below this, the sender resumes.
    pub resume_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Switch {
    pub(super) spec: SwitchSpec,
    dice: Dice,
    /// For each incoming link, the queued bytes and whether it is paused.
    ingress: BTreeMap<EgressId, (usize, bool)>,
    /// Number of paused links.
    paused: usize,
    /// The sum of the queued bytes.
    queued_bytes: usize,
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec, dice: Dice) -> Self {
        Self {
            spec,
            dice,
            ingress: BTreeMap::new(),
            paused: 0,
            queued_bytes: 0,
        }
    }

    /// Whether to mark a packet that finds `queued_bytes` in the queue. Draws a random number.
    pub(super) fn should_mark(&mut self, queued_bytes: usize) -> bool {
        let Some(ecn) = self.spec.ecn else {
            return false;
        };
        if queued_bytes <= ecn.kmin_bytes {
            return false;
        }
        if queued_bytes >= ecn.kmax_bytes {
            return true;
        }
        let above = (queued_bytes - ecn.kmin_bytes) as u64;
        let range = (ecn.kmax_bytes - ecn.kmin_bytes) as u64;
        self.dice.below(100 * range) < above * u64::from(ecn.pmax_percent)
    }

    /// Whether the shared memory has space for a packet of `len` bytes.
    pub(super) fn has_space(&self, len: usize) -> bool {
        self.spec
            .buffer
            .is_none_or(|buffer| self.queued_bytes + len <= buffer.bytes)
    }

    /// Counts a queued packet that arrived on `link`. Returns whether the link must be paused.
    pub(super) fn packet_queued(&mut self, link: EgressId, len: usize) -> bool {
        if !self.counts_bytes() {
            return false;
        }
        self.queued_bytes += len;
        let pause_above = self.pause_above();
        let (bytes, paused) = self.ingress.entry(link).or_default();
        *bytes += len;
        let pause = !*paused && *bytes > pause_above;
        *paused |= pause;
        self.paused += usize::from(pause);
        pause
    }

    /// Counts a packet as gone. The caller then calls [`Switch::resume`].
    pub(super) fn packet_left(&mut self, link: EgressId, len: usize) {
        if !self.counts_bytes() {
            return;
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(len);
        let (bytes, _) = self.ingress.entry(link).or_default();
        *bytes = bytes.saturating_sub(len);
    }

    /// A link that may resume, if there is one. It no longer counts as paused.
    pub(super) fn resume(&mut self) -> Option<EgressId> {
        if self.paused == 0 {
            return None;
        }
        let below = self.resume_below();
        let may_resume = |(_, (bytes, paused)): &(&EgressId, &mut (usize, bool))| {
            // A link without queued packets would never be checked again.
            *paused && (*bytes < below || *bytes == 0)
        };
        let (link, (_, paused)) = self.ingress.iter_mut().find(may_resume)?;
        *paused = false;
        self.paused -= 1;
        Some(*link)
    }

    fn counts_bytes(&self) -> bool {
        self.spec.pfc.is_some() || self.spec.buffer.is_some()
    }

    /// The number of queued bytes above which a link is paused.
    fn pause_above(&self) -> usize {
        let fixed = self.spec.pfc.map_or(usize::MAX, |pfc| pfc.pause_bytes);
        let free = self.spec.buffer.map_or(usize::MAX, |buffer| {
            let shared = buffer.bytes.saturating_sub(buffer.headroom_bytes);
            shared.saturating_sub(self.queued_bytes)
        });
        fixed.min(free)
    }

    /// The number of queued bytes below which a link may resume.
    fn resume_below(&self) -> usize {
        let fixed = self.spec.pfc.map_or(usize::MAX, |pfc| pfc.resume_bytes);
        let free = self.spec.buffer.map_or(usize::MAX, |buffer| {
            let shared = buffer.bytes.saturating_sub(buffer.headroom_bytes);
            let free = shared.saturating_sub(self.queued_bytes);
            free.saturating_sub(buffer.hysteresis_bytes)
        });
        fixed.min(free)
    }

    /// The total of queued bytes, as counted for the incoming links.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }
}

#[cfg(test)]
mod tests;
