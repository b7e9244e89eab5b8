//! Statistics.

/// Jain's index of fairness: 1 if all shares are equal, 1/n if only one of n shares is not 0.
/// `None` if there are no shares, or all are 0.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The value that `percent` percent of all do not exceed (nearest rank). Sorts the values. `None`
/// if there are none.
pub fn percentile<T: Copy + PartialOrd>(values: &mut [T], percent: f64) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}
