//! The figures of paced QPs: tables and plot.

use super::{BULK, Load, Pacing, SINGLE};
use crate::median;
use plotters::prelude::*;
use std::fmt::Write;

/// The numbers of paced QPs; the last is the required one.
pub const QPS: [usize; 4] = [100, 1000, 3000, 10_000];

/// The largest acceptable cost of a paced packet, relative to an unpaced one.
const GOAL: f64 = 1.3;

/// The largest acceptable deviation of a QP from its rate, in percent.
const RATE_GOAL: f64 = 2.0;

/// The cost of packets with this many QPs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Number of QPs.
    pub qps: usize,
    /// Messages of one packet each.
    pub single: Vec<Round>,
    /// Messages of many.
    pub bulk: Vec<Round>,
}

/// Nanoseconds per packet in one round: unpaced, paced.
pub type Round = (f64, f64);

fn median_of(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let all: Vec<f64> = rounds.iter().map(of).collect();
    median(&all).unwrap_or(f64::NAN)
}

/// The cost of a paced packet relative to an unpaced one.
fn ratio(rounds: &[Round]) -> f64 {
    median_of(rounds, |(unpaced, paced)| paced / unpaced)
}

/// Measures the cost of packets, alternating paced and unpaced.
///
/// # Errors
/// If a message fails.
pub fn measure_costs(packets: u64, rounds: usize) -> Result<Vec<Cost>, String> {
    let of = |qps| {
        Ok(Cost {
            qps,
            single: measure(qps, SINGLE, packets, rounds)?,
            bulk: measure(qps, BULK, packets, rounds)?,
        })
    };
    QPS.into_iter().map(of).collect()
}

fn measure(qps: usize, load: Load, packets: u64, rounds: usize) -> Result<Vec<Round>, String> {
    let mut unpaced = Pacing::new(qps, load, false)?;
    let mut paced = Pacing::new(qps, load, true)?;
    let mut both = || Ok((unpaced.send(packets)?, paced.send(packets)?));
    // The first round warms up.
    both().and_then(|_: Round| (0..rounds).map(|_| both()).collect())
}

/// The largest deviation of any of the QPs from its rate, as a fraction.
///
/// # Errors
/// If a message fails.
pub fn measure_worst(qps: usize) -> Result<f64, String> {
    let off = Pacing::new(qps, BULK, true)?.run_second()?;
    Ok(off.iter().fold(0.0, |worst, off| worst.max(off.abs())))
}

/// The tables.
pub fn page(all: &[Cost], worst: f64, machine: &str) -> String {
    let rounds = all.first().map_or(0, |cost| cost.single.len());
    let worst = worst * 100.0;
    let qps = QPS[QPS.len() - 1];
    let mut page = format!(
        "Machine: {machine}. Of {qps} QPs, the one that was furthest off its rate was off by \
         {worst:.2} percent over a second (goal: at most {RATE_GOAL}; {}). What a packet costs, \
         medians of {rounds} rounds:\n\n\
         | QPs | one packet in a turn: unpaced | paced | **paced / unpaced** | goal | met \
         | 32 in a turn: unpaced | paced / unpaced |\n|---|---|---|---|---|---|---|---|\n",
        yes_or_no(worst <= RATE_GOAL)
    );
    for cost in all {
        let _ = writeln!(
            page,
            "| {} | {:.0} ns | {:.0} ns | **{:.2}** | at most {GOAL} | {} | {:.0} ns | {:.2} |",
            cost.qps,
            median_of(&cost.single, |round| round.0),
            median_of(&cost.single, |round| round.1),
            ratio(&cost.single),
            yes_or_no(ratio(&cost.single) <= GOAL),
            median_of(&cost.bulk, |round| round.0),
            ratio(&cost.bulk),
        );
    }
    page += "\nEach round, unpaced / paced in ns, one packet in a turn:\n\n";
    for cost in all {
        let each: Vec<String> = cost
            .single
            .iter()
            .map(|(unpaced, paced)| format!("{unpaced:.0} / {paced:.0}"))
            .collect();
        let _ = writeln!(page, "- {} QPs: {}", cost.qps, each.join(", "));
    }
    page
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "**no**" }
}

/// The cost of a packet against the number of QPs, as SVG.
///
/// # Errors
/// If the plot can't be drawn.
pub fn plot(all: &[Cost]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (720, 400)).into_drawing_area();
        draw(all, &area).map_err(|e| format!("drawing: {e}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(all: &[Cost], area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let line = |of: fn(&Round) -> f64| -> Vec<(f64, f64)> {
        all.iter()
            .map(|cost| (cost.qps as f64, median_of(&cost.single, of)))
            .collect()
    };
    let (unpaced, paced) = (line(|round| round.0), line(|round| round.1));
    let top = paced
        .iter()
        .chain(&unpaced)
        .fold(0.0, |top: f64, point| top.max(point.1))
        * 1.2;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .caption("What a packet of 4096 bytes costs", ("sans-serif", 18))
        .build_cartesian_2d((80.0..20_000.0_f64).log_scale(), 0.0..top)?;
    chart.configure_mesh().x_desc("QPs").y_desc("ns").draw()?;
    for (name, points, colour) in [("unpaced", unpaced, BLUE), ("paced", paced, RED)] {
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .position(SeriesLabelPosition::LowerRight)
        .draw()?;
    area.present()?;
    Ok(())
}
