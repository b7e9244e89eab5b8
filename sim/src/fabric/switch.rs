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
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec, hosts: usize, dice: Dice) -> Self {
        Self {
            spec,
            routes: vec![None; hosts],
            dice,
            ingress: BTreeMap::new(),
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

    /// A packet that came by `link` waits here. Whether the link must be paused.
    pub(super) fn note_waiting(&mut self, link: EgressId, len: usize) -> bool {
        let Some(pfc) = self.spec.pfc else {
            return false;
        };
        let (bytes, paused) = self.ingress.entry(link).or_default();
        *bytes += len;
        let pause = !*paused && *bytes > pfc.pause_bytes;
        *paused |= pause;
        pause
    }

    /// It has left. Whether the link may go on.
    pub(super) fn note_gone(&mut self, link: EgressId, len: usize) -> bool {
        let Some(pfc) = self.spec.pfc else {
            return false;
        };
        let (bytes, paused) = self.ingress.entry(link).or_default();
        *bytes = bytes.saturating_sub(len);
        let resume = *paused && *bytes < pfc.resume_bytes;
        *paused &= !resume;
        resume
    }

    /// Bytes that wait, as counted for the links that they came by.
    pub(super) fn waiting(&self) -> usize {
        self.ingress.values().map(|(bytes, _)| bytes).sum()
    }
}
