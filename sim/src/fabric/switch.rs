//! Switches: routes, tail drop, ECN marks, and pause frames.

use super::EgressId;
use crate::dice::Dice;
use std::collections::BTreeMap;

/// What a switch does with packets that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Marks packets "congestion experienced", as DCQCN wants it.
    pub ecn: Option<EcnSpec>,
    /// Priority flow control: stops who sends before packets must be dropped.
    pub pfc: Option<PfcSpec>,
    /// Memory that all ports share, with flow control whose threshold follows from it.
    pub buffer: Option<BufferSpec>,
}

/// Memory that all ports of a switch share. A link is paused when more bytes that came by
/// it wait than are still free, as the DCQCN paper sets up its switches (section 4, with
/// beta = 8 for eight priorities, of which one is used).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// For all packets that wait. Without room for it, a packet is dropped.
    pub bytes: usize,
    /// Of those: for what is still under way when a pause frame has been sent, of all
    /// links together. Not counted as free.
    pub headroom_bytes: usize,
    /// A paused link goes on at so many bytes below the threshold.
    pub hysteresis_bytes: usize,
}

/// Marks with a chance that grows with the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnSpec {
    /// Up to so many bytes, none is marked.
    pub kmin_bytes: usize,
    /// From so many bytes on, all are.
    pub kmax_bytes: usize,
    /// The chance just below `kmax_bytes`, in percent.
    pub pmax_percent: u8,
}

/// When to stop who sends, counted for each link that leads here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcSpec {
    /// More bytes than this that came by one link: it is told to stop.
    pub pause_bytes: usize,
    /// Fewer than this: it is told to go on.
    pub resume_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Switch {
    pub(super) spec: SwitchSpec,
    /// The way to each host, by its number.
    pub(super) routes: Vec<Option<EgressId>>,
    dice: Dice,
    /// Of each link that leads here: bytes that wait, and whether it is paused.
    ingress: BTreeMap<EgressId, (usize, bool)>,
    /// How many of them are paused.
    paused: usize,
    /// The sum of those bytes.
    held: usize,
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec, hosts: usize, dice: Dice) -> Self {
        Self {
            spec,
            routes: vec![None; hosts],
            dice,
            ingress: BTreeMap::new(),
            paused: 0,
            held: 0,
        }
    }

    /// Whether a packet is marked that finds so many bytes waiting.
    pub(super) fn marks(&mut self, waiting: usize) -> bool {
        let Some(ecn) = self.spec.ecn else {
            return false;
        };
        if waiting <= ecn.kmin_bytes {
            return false;
        }
        if waiting >= ecn.kmax_bytes {
            return true;
        }
        let above = (waiting - ecn.kmin_bytes) as u64;
        let range = (ecn.kmax_bytes - ecn.kmin_bytes) as u64;
        self.dice.below(100 * range) < above * u64::from(ecn.pmax_percent)
    }

    /// Whether the memory that all ports share takes a packet.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.spec
            .buffer
            .is_none_or(|buffer| self.held + len <= buffer.bytes)
    }

    /// A packet that came by `link` waits here. Whether the link must be paused.
    pub(super) fn note_waiting(&mut self, link: EgressId, len: usize) -> bool {
        if !self.counts() {
            return false;
        }
        self.held += len;
        let pause_above = self.pause_above();
        let (bytes, paused) = self.ingress.entry(link).or_default();
        *bytes += len;
        let pause = !*paused && *bytes > pause_above;
        *paused |= pause;
        self.paused += usize::from(pause);
        pause
    }

    /// It has left. [`Switch::resume`] is due.
    pub(super) fn note_gone(&mut self, link: EgressId, len: usize) {
        if !self.counts() {
            return;
        }
        self.held = self.held.saturating_sub(len);
        let (bytes, _) = self.ingress.entry(link).or_default();
        *bytes = bytes.saturating_sub(len);
    }

    /// A link that may go on, if there is one: it counts as told.
    pub(super) fn resume(&mut self) -> Option<EgressId> {
        if self.paused == 0 {
            return None;
        }
        let below = self.resume_below();
        let waits = |(_, (bytes, paused)): &(&EgressId, &mut (usize, bool))| {
            // With nothing left here it would never be looked at again.
            *paused && (*bytes < below || *bytes == 0)
        };
        let (link, (_, paused)) = self.ingress.iter_mut().find(waits)?;
        *paused = false;
        self.paused -= 1;
        Some(*link)
    }

    fn counts(&self) -> bool {
        self.spec.pfc.is_some() || self.spec.buffer.is_some()
    }

    /// More bytes of one link than this, and it is paused.
    fn pause_above(&self) -> usize {
        let fixed = self.spec.pfc.map_or(usize::MAX, |pfc| pfc.pause_bytes);
        let free = self.spec.buffer.map_or(usize::MAX, |buffer| {
            let shared = buffer.bytes.saturating_sub(buffer.headroom_bytes);
            shared.saturating_sub(self.held)
        });
        fixed.min(free)
    }

    /// Fewer than this, and it may go on.
    fn resume_below(&self) -> usize {
        let fixed = self.spec.pfc.map_or(usize::MAX, |pfc| pfc.resume_bytes);
        let free = self.spec.buffer.map_or(usize::MAX, |buffer| {
            let shared = buffer.bytes.saturating_sub(buffer.headroom_bytes);
            let free = shared.saturating_sub(self.held);
            free.saturating_sub(buffer.hysteresis_bytes)
        });
        fixed.min(free)
    }

    /// Bytes that wait, as counted for the links that they came by.
    pub(super) fn waiting(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests;
