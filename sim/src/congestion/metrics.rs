//! What is made of numbers.

/// Jain's index of fairness: 1 if all have the same, 1/n if one has all. `None` of nothing.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The value that so many percent of all do not exceed (nearest rank); sorts them. `None`
/// of nothing.
pub fn percentile<T: Copy + PartialOrd>(values: &mut [T], percent: f64) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}
