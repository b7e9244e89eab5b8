//! The figures of many QPs: page and plot.

use super::{MESSAGE, Many, Moved, RECEIVE_BUFFER};
use crate::median;
use plotters::prelude::*;
use std::fmt::Write;

/// The numbers of active QPs. The first is the baseline of the others.
pub const ACTIVE: [usize; 5] = [16, 100, 1000, 3000, 10_000];

/// The number of posted requests of all QPs together, unless there are more QPs.
const POSTED: usize = 256;

/// The throughput with this many active QPs.
#[derive(Clone, Debug)]
pub struct Throughput {
    /// Number of active QPs.
    pub active: usize,
    /// The result of each run.
    pub runs: Vec<Moved>,
}

impl Throughput {
    fn gbit_per_sec(&self) -> f64 {
        let all: Vec<f64> = self.runs.iter().map(|run| run.bits_per_sec / 1e9).collect();
        median(&all).unwrap_or(f64::NAN)
    }

    fn lost(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), run: &Moved| (sum.0 + run.dropped, sum.1 + run.repeated);
        self.runs.iter().fold((0, 0), add)
    }
}

/// Measures throughput, with the kinds alternating in each round.
///
/// # Errors
/// If a message fails.
pub fn measure_throughput(messages: u64, rounds: usize) -> Result<Vec<Throughput>, String> {
    let most = ACTIVE.iter().copied().max().unwrap_or(1);
    let mut many = Many::new(most, POSTED / ACTIVE[0])?;
    let mut all: Vec<Throughput> = ACTIVE
        .iter()
        .map(|&active| Throughput {
            active,
            runs: Vec::new(),
        })
        .collect();
    for _ in 0..rounds {
        for kind in &mut all {
            kind.runs
                .push(many.move_data(kind.active, POSTED, messages)?);
        }
    }
    Ok(all)
}

/// The page of documentation. `per_qp` is the size in bytes of a connected, idle QP with queues of
/// one request; `per_request` is the size of another request in both queues.
pub fn page(all: &[Throughput], qps: usize, per_qp: f64, per_request: f64) -> String {
    let base = all.first().map_or(f64::NAN, Throughput::gbit_per_sec);
    let mut table = String::from(
        "| active QPs | throughput, median | of that with 16 | dropped for lack of room | retransmitted |\n\
         |---|---|---|---|---|\n",
    );
    for kind in all {
        let gbit = kind.gbit_per_sec();
        let (dropped, repeated) = kind.lost();
        let _ = writeln!(
            table,
            "| {} | {gbit:.1} Gb/s | {:.0} % | {dropped} | {repeated} |",
            kind.active,
            gbit / base * 100.0
        );
    }
    format!(
        include_str!("page.md"),
        table = table,
        qps = qps,
        per_qp = per_qp,
        per_request = per_request,
        kib = MESSAGE >> 10,
        buffer = RECEIVE_BUFFER >> 20,
        rounds = all.first().map_or(0, |kind| kind.runs.len()),
        posted = POSTED,
    )
}

/// Throughput against the number of active QPs, as SVG.
///
/// # Errors
/// If the plot can't be drawn.
pub fn plot(all: &[Throughput]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (720, 400)).into_drawing_area();
        draw(all, &area).map_err(|e| format!("drawing: {e}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(all: &[Throughput], area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let points: Vec<(f64, f64)> = all
        .iter()
        .map(|kind| (kind.active as f64, kind.gbit_per_sec()))
        .collect();
    let top = points.iter().fold(0.0, |top: f64, point| top.max(point.1)) * 1.2;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .caption("Throughput of all QPs together", ("sans-serif", 18))
        .build_cartesian_2d((10.0..20_000.0_f64).log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("active QPs")
        .y_desc("Gb/s")
        .draw()?;
    chart.draw_series(LineSeries::new(points, BLUE.stroke_width(2)).point_size(3))?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With any number of active QPs, their data in flight fits the receiver's buffer: nothing is
    /// dropped or retransmitted.
    #[test]
    fn many_qps_never_overrun_the_receiver() {
        let mut many = Many::new(1000, 2).expect("QPs");
        let moved = many.move_data(1000, 2000, 4000).expect("moved");
        assert_eq!(moved.dropped, 0, "{moved:?}");
    }
}
