//! Decides which injections strike.

use crate::strike::report;
use crate::{Chance, splitmix64};
use crate::{Faults, Injection, Target, When};
use parking_lot::Mutex;
use roce_trust::environment::Malformed;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts the matches of each injection and decides which of them strike. Devices with the same
/// [`Faults`] share a judge; the whole process shares the environment's.
#[derive(Debug)]
pub struct Judge {
    faults: Faults,
    seed: u64,
    counts: Mutex<Vec<Count>>,
    qps: AtomicU32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    matches: u64,
    is_reported: bool,
}

impl Judge {
    /// The judge of these faults, with this seed instead of theirs.
    pub fn new(mut faults: Faults, seed: u64) -> Arc<Self> {
        faults.network.seed = Some(seed);
        let counts = Mutex::new(vec![Count::default(); faults.injections.len()]);
        Arc::new(Self {
            faults,
            seed,
            counts,
            qps: AtomicU32::new(0),
        })
    }

    /// The judge for the environment's faults; `None` if they have no injections.
    ///
    /// # Errors
    /// If the value is malformed.
    pub fn from_environment() -> Result<Option<Arc<Self>>, Malformed> {
        static JUDGE: std::sync::OnceLock<Arc<Judge>> = std::sync::OnceLock::new();
        let Some(faults) = crate::environment_faults()? else {
            return Ok(None);
        };
        if faults.injections.is_empty() {
            return Ok(None);
        }
        let judge = JUDGE.get_or_init(|| {
            let seed = faults.network.seed.unwrap_or_default();
            let judge = Judge::new(faults, seed);
            crate::strike::announce(&judge.faults);
            judge
        });
        Ok(Some(Arc::clone(judge)))
    }

    /// The faults, with the seed in use.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Numbers a new QP, starting at 1.
    pub fn number_qp(&self) -> u32 {
        self.qps.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether `concerns` holds for the target of any injection.
    pub fn has(&self, concerns: impl Fn(&Target) -> bool) -> bool {
        self.faults
            .injections
            .iter()
            .any(|injection| concerns(&injection.what))
    }

    /// Handles an occurrence of something that can fail. `fault_of` returns the fault of an injection that
    /// matches it. Counts a match for each of these injections and returns the fault of the first one
    /// that strikes.
    pub fn strike<F>(&self, fault_of: impl Fn(&Injection) -> Option<F>) -> Option<F> {
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

    fn strikes(&self, index: usize, when: When, nth: u64) -> bool {
        match when {
            When::Always => true,
            When::Matches { first, last } => nth >= first && last.is_none_or(|last| nth <= last),
            When::Chance(chance) => self.draw(index, chance, nth),
            When::Time { .. } => false,
        }
    }

    /// Draws whether the `nth` match strikes. The result depends on nothing else, so other injections do
    /// not shift it.
    fn draw(&self, index: usize, chance: Chance, nth: u64) -> bool {
        let injection = (index as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f);
        let place = self.seed ^ injection ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chance.includes(splitmix64(place))
    }
}

impl Count {
    /// The injection that reproduces this strike; `None` if it has been reported already.
    fn repetition(&mut self, injection: &Injection) -> Option<Injection> {
        match injection.when {
            When::Chance(_) => Some(injection.clone().at(self.matches)),
            _ if std::mem::replace(&mut self.is_reported, true) => None,
            _ => Some(injection.clone()),
        }
    }
}
