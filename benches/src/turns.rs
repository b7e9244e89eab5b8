//! Two programs measured in alternation: the ratio of their figures, with a confidence interval.

use crate::median;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// Samples that are drawn for the interval.
const SAMPLES: usize = 2000;

/// The figures of two programs that took turns on one machine: a pair (before, after) for each turn.
#[derive(Clone, Debug, Default)]
pub struct Turns(Vec<(f64, f64)>);

/// A ratio, and the interval that contains it with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The figure after, divided by the figure before.
    pub ratio: f64,
    /// The bounds of the interval.
    pub interval: (f64, f64),
}

impl Turns {
    /// Adds the figures of one turn.
    pub fn push(&mut self, before: f64, after: f64) {
        self.0.push((before, after));
    }

    /// The medians of the figures before and after. `None` if there are no turns.
    pub fn medians(&self) -> Option<(f64, f64)> {
        let (before, after): (Vec<f64>, Vec<f64>) = self.0.iter().copied().unzip();
        Some((median(&before)?, median(&after)?))
    }

    /// The ratio of the trimmed means. Single turns can differ by a factor of two, because a virtual
    /// machine has states that last for minutes, so the lowest and highest fifths are discarded.
    /// The interval is a bootstrap over the turns, drawn from `seed`. `None` if there are no turns.
    pub fn ratio(&self, seed: u64) -> Option<Ratio> {
        let ratio = ratio(&self.0)?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut drawn: Vec<f64> = (0..SAMPLES)
            .filter_map(|_| ratio_of_sample(&self.0, &mut rng))
            .collect();
        drawn.sort_by(f64::total_cmp);
        let low = *drawn.get(drawn.len() / 40)?;
        let high = *drawn.get(drawn.len() - 1 - drawn.len() / 40)?;
        Some(Ratio {
            ratio,
            interval: (low, high),
        })
    }
}

/// The ratio of as many turns, drawn with repetition.
fn ratio_of_sample(turns: &[(f64, f64)], rng: &mut ChaCha20Rng) -> Option<f64> {
    let sample: Vec<(f64, f64)> = (0..turns.len())
        .filter_map(|_| {
            turns
                .get(rng.next_u32() as usize % turns.len().max(1))
                .copied()
        })
        .collect();
    ratio(&sample)
}

fn ratio(turns: &[(f64, f64)]) -> Option<f64> {
    let (before, after): (Vec<f64>, Vec<f64>) = turns.iter().copied().unzip();
    Some(trimmed_mean(after)? / trimmed_mean(before)?)
}

/// The mean without the lowest and the highest fifth.
fn trimmed_mean(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let cut = figures.len() / 5;
    let kept = figures.get(cut..figures.len() - cut)?;
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(all: impl IntoIterator<Item = (f64, f64)>) -> Turns {
        Turns(all.into_iter().collect())
    }

    #[test]
    fn a_tenth_more_in_each_turn_is_a_tenth_more() {
        let all = turns((1..=50).map(|turn| (f64::from(turn), f64::from(turn) * 1.1)));
        let Ratio { ratio, interval } = all.ratio(1).expect("turns");
        assert!((ratio - 1.1).abs() < 1e-9, "{ratio}");
        assert!(interval.0 <= ratio && ratio <= interval.1, "{interval:?}");
        assert_eq!(all.ratio(1), all.ratio(1), "a seed gives the same interval");
    }

    #[test]
    fn a_few_wild_turns_do_not_count() {
        let calm = (0..20).map(|_| (10.0, 10.0));
        let all = turns(calm.chain([(1.0, 90.0), (1.0, 90.0)]));
        assert_eq!(all.ratio(1).map(|found| found.ratio), Some(1.0));
        assert_eq!(all.medians(), Some((10.0, 10.0)));
    }

    #[test]
    fn noise_makes_the_interval_wide() {
        let width = |noise: f64| {
            let all = turns((0..40).map(|turn| (10.0, 10.0 + noise * f64::from(turn % 5 - 2))));
            let (low, high) = all.ratio(1).expect("turns").interval;
            high - low
        };
        assert!(width(0.1) < width(2.0), "{} {}", width(0.1), width(2.0));
        assert_eq!(width(0.0), 0.0);
    }

    #[test]
    fn no_turns_have_no_ratio() {
        assert_eq!(Turns::default().ratio(1), None);
        assert_eq!(Turns::default().medians(), None);
    }
}
