//! Benchmarks of the project compared with well-known programs, as ratios taken in one run:
//! machines differ and drift, ratios less so.
#![warn(missing_docs)]

pub mod command;
pub mod curves;
pub mod emulation;
pub mod fabric;
pub mod flames;
pub mod frameworks;
pub mod local;
pub mod nvme;
pub mod ordinary;
pub mod output;
pub mod pacer;
pub mod packet;
pub mod page;
pub mod peers;
pub mod perftest;
pub mod recovery;
pub mod report;
pub mod roce;
pub mod scale;
pub mod state;
pub mod turns;
pub mod veth;

/// The median: the middle figure, or the mean of the middle two if their number is even. `None` if
/// there are no figures.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
