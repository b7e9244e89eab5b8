//! Shrinks the faults of a run by running the test again and again, within limits.

use super::part::Part;
use super::plan::Plan;
use super::report::Smallest;
use super::shrink::{fewest, smallest};
use crate::error::Error;
use std::time::{Duration, Instant};

/// How often to run the test with the same faults: threads are scheduled differently each time.
const TRIES: u32 = 3;

/// How often to run it with the result.
const CONFIRMING_RUNS: u32 = 5;

/// The most runs before that.
const MAX_RUNS: u32 = 150;

/// The time after which no further run begins, as a multiple of the limit of one run.
const TIME_FACTOR: u32 = 20;

/// Shrinks with a function that runs the test with faults, and says whether it failed.
pub(super) struct Shrinker<F> {
    fails: F,
    runs: u32,
    /// When the time is up.
    until: Instant,
    /// Whether a run did not take place, since the time was up.
    was_cut_short: bool,
    error: Option<Error>,
}

impl<F: FnMut(&str) -> Result<bool, Error>> Shrinker<F> {
    /// `limit` is the longest that one run takes.
    pub(super) fn new(fails: F, limit: Duration) -> Self {
        Self {
            fails,
            runs: 0,
            until: Instant::now() + TIME_FACTOR * limit,
            was_cut_short: false,
            error: None,
        }
    }

    /// Shrinks a plan with which the test has failed once. `again` makes the command that repeats a run.
    pub(super) fn shrink(
        mut self,
        plan: &Plan,
        again: impl FnOnce(&str) -> String,
    ) -> Result<Smallest, Error> {
        let mut once = |parts: &[Part]| self.fails_once(&plan.with(parts.to_vec()));
        let parts = fewest(&plan.parts, &mut once);
        // A smaller number is no gain if the test then fails less often.
        let mut always = |parts: &[Part]| self.fails_always(&plan.with(parts.to_vec()));
        let parts = smallest(&parts, Part::smaller, &mut always);
        let faults = plan.with(parts).to_string();
        let (runs, complete) = (self.runs, !self.was_cut_short);
        let mut failed = 0;
        for _ in 0..CONFIRMING_RUNS {
            failed += u32::from((self.fails)(&faults)?);
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(Smallest {
                again: again(&faults),
                faults,
                failed,
                of: CONFIRMING_RUNS,
                runs,
                complete,
            }),
        }
    }

    fn fails_once(&mut self, plan: &Plan) -> bool {
        let faults = plan.to_string();
        (0..TRIES).any(|_| self.try_it(&faults) == Some(true))
    }

    fn fails_always(&mut self, plan: &Plan) -> bool {
        let faults = plan.to_string();
        (0..TRIES).all(|_| self.try_it(&faults) == Some(true))
    }

    /// Whether a run fails; `None` if it does not take place.
    fn try_it(&mut self, faults: &str) -> Option<bool> {
        if self.runs >= MAX_RUNS || Instant::now() >= self.until {
            self.was_cut_short = true;
        }
        if self.was_cut_short || self.error.is_some() {
            return None;
        }
        self.runs += 1;
        match (self.fails)(faults) {
            Ok(fails) => Some(fails),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::part::tests::late;
    use super::*;
    use roce_verbs::faults::Chance;

    fn plan() -> Plan {
        Plan {
            parts: vec![
                Part::Loss(Chance::per_million(10_000)),
                late(20, 3, 9),
                Part::Duplicates(Chance::per_million(10_000)),
            ],
            seed: 7,
        }
    }

    fn shrunk(fails: impl FnMut(&str) -> bool, time: Duration) -> Smallest {
        let mut fails = fails;
        let shrinker = Shrinker::new(|faults: &str| Ok(fails(faults)), time);
        shrinker
            .shrink(&plan(), str::to_owned)
            .expect("no run is impossible")
    }

    #[test]
    fn one_part_with_small_numbers_is_left() {
        let fails = |faults: &str| {
            let parts = faults.split(',');
            let mut injections = parts.filter_map(|part| part.strip_prefix("recv:late="));
            injections.any(|injection| {
                let (time, matches) = injection.split_once('@').expect("matches");
                let (first, last) = matches.split_once("..").unwrap_or((matches, matches));
                let strikes: std::ops::RangeInclusive<u32> =
                    first.parse().expect("a number")..=last.parse().expect("a number");
                strikes.contains(&5) && ["5ms", "10ms", "20ms"].contains(&time)
            })
        };
        let found = shrunk(fails, Duration::from_secs(600));
        assert_eq!(found.faults, "recv:late=5ms@5");
        assert_eq!((found.failed, found.complete), (CONFIRMING_RUNS, true));
        assert!(found.runs < 60, "{}", found.runs);
    }

    /// It fails every third time, and only with all faults.
    #[test]
    fn a_failure_that_depends_on_timing_is_tried_again() {
        let mut runs = 0;
        let fails = |faults: &str| {
            runs += 1;
            faults.contains("loss") && faults.contains("dup") && runs % 3 == 0
        };
        let found = shrunk(fails, Duration::from_secs(600));
        assert_eq!(found.faults, "loss=1%,dup=1%,seed=7");
        assert!((1..=2).contains(&found.failed), "{}", found.failed);
    }

    /// With 20 ms it always fails, and with less every other time.
    #[test]
    fn a_number_with_which_it_fails_less_often_is_no_gain() {
        let mut runs = 0;
        let fails = |faults: &str| {
            runs += 1;
            faults.contains("late=20ms") || (faults.contains("late=") && runs % 2 == 0)
        };
        let found = shrunk(fails, Duration::from_secs(600));
        let left = found.faults;
        assert!(left.starts_with("recv:late=20ms@"), "{left}");
        assert_eq!(found.failed, CONFIRMING_RUNS);
    }

    #[test]
    fn a_test_that_fails_without_faults_is_left_without() {
        let found = shrunk(|_| true, Duration::from_secs(600));
        assert_eq!(found.faults, "");
        assert_eq!(found.failed, CONFIRMING_RUNS);
    }

    #[test]
    fn when_the_time_is_up_the_best_so_far_is_left() {
        let found = shrunk(|_| true, Duration::ZERO);
        assert_eq!((found.complete, found.runs), (false, 0));
        assert_eq!(found.faults, plan().to_string());
    }

    #[test]
    fn the_number_of_runs_is_limited() {
        let mut runs = 0;
        // Each shorter list of matches fails, but none of those with a shorter time.
        let fails = |_: &str| {
            runs += 1;
            runs % 2 == 0
        };
        shrunk(fails, Duration::from_secs(600));
        assert!(runs <= MAX_RUNS + CONFIRMING_RUNS, "{runs}");
    }

    #[test]
    fn an_error_ends_it() {
        let fails = |_: &str| Err(Error::usage("no"));
        let result = Shrinker::new(fails, Duration::from_secs(600)).shrink(&plan(), str::to_owned);
        assert!(result.is_err());
    }
}
