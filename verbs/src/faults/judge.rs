//! Decides which injections strike.

use super::strike::report;
use super::{Faults, Injection, What, When};
use crate::error::OpenError;
use parking_lot::Mutex;
use roce_port::fault::Chance;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts what matches each injection, and decides which of them strike. Shared by all devices that the
/// same [`Faults`] are for: with those of the environment, by the whole process.
#[derive(Debug)]
pub(crate) struct Judge {
    faults: Faults,
    seed: u64,
    counts: Mutex<Vec<Count>>,
    qps: AtomicU32,
}

/// What has matched one injection.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    matches: u64,
    is_reported: bool,
}

impl Judge {
    /// `seed` is that of the faults, or one that was drawn.
    pub(crate) fn new(mut faults: Faults, seed: u64) -> Arc<Self> {
        faults.network.seed = Some(seed);
        let counts = Mutex::new(vec![Count::default(); faults.injections.len()]);
        Arc::new(Self {
            faults,
            seed,
            counts,
            qps: AtomicU32::new(0),
        })
    }

    /// The judge for the faults that the environment sets; `None` if it sets no injections.
    ///
    /// # Errors
    /// If the value is malformed.
    pub(crate) fn of_environment() -> Result<Option<Arc<Self>>, OpenError> {
        static JUDGE: std::sync::OnceLock<Arc<Judge>> = std::sync::OnceLock::new();
        let Some(faults) = super::environment_faults()? else {
            return Ok(None);
        };
        if faults.injections.is_empty() {
            return Ok(None);
        }
        let judge = JUDGE.get_or_init(|| {
            let seed = faults.network.seed.unwrap_or_default();
            let judge = Judge::new(faults, seed);
            super::strike::announce(&judge.faults);
            judge
        });
        Ok(Some(Arc::clone(judge)))
    }

    /// The faults, with the seed in use.
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// A number for a new QP, from 1 on.
    pub(crate) fn number_qp(&self) -> u32 {
        self.qps.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether an injection is about what `concerns` describes.
    pub(crate) fn has(&self, concerns: impl Fn(&What) -> bool) -> bool {
        self.faults
            .injections
            .iter()
            .any(|injection| concerns(&injection.what))
    }

    /// Something has happened that `fault_of` finds the fault of matching injections for. Counts it for
    /// each of them, and returns the fault of the first one that strikes.
    pub(crate) fn strike<F>(&self, fault_of: impl Fn(&Injection) -> Option<F>) -> Option<F> {
        let mut struck = None;
        let mut counts = self.counts.lock();
        for (index, (injection, count)) in
            self.faults.injections.iter().zip(&mut *counts).enumerate()
        {
            let Some(fault) = fault_of(injection) else {
                continue;
            };
            count.matches += 1;
            if struck.is_none() && self.strikes(index, injection.when, count.matches) {
                if let Some(again) = count.repetition(injection) {
                    report(&again);
                }
                struck = Some(fault);
            }
        }
        struck
    }

    /// Whether the injection with this index strikes its `nth` match.
    fn strikes(&self, index: usize, when: When, nth: u64) -> bool {
        match when {
            When::Always => true,
            When::Matches { first, last } => nth >= first && last.is_none_or(|last| nth <= last),
            When::Chance(chance) => self.draws(index, chance, nth),
            When::Time { .. } => false,
        }
    }

    /// Each match of each injection has a draw of its own, so that others don't shift it.
    fn draws(&self, index: usize, chance: Chance, nth: u64) -> bool {
        let injection = (index as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f);
        let place = self.seed ^ injection ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chance.includes(mixed(place))
    }
}

impl Count {
    /// The injection that repeats this strike; `None` if it has been reported.
    fn repetition(&mut self, injection: &Injection) -> Option<Injection> {
        match injection.when {
            When::Chance(_) => Some(injection.clone().at(self.matches)),
            _ if std::mem::replace(&mut self.is_reported, true) => None,
            _ => Some(injection.clone()),
        }
    }
}

/// SplitMix64: a random number for a place.
fn mixed(place: u64) -> u64 {
    let mut mixed = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
