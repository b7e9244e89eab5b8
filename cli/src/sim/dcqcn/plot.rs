//! Curves, as SVG and as CSV.

use crate::plot::{Area, Axes, Key, Points, chart, draw, picture};
use roce_sim::congestion::{Completion, Outcome};
use std::error::Error;
use std::fmt::Write;

/// The rate of each flow and, below it, the queue lengths, over time.
pub(super) fn curves(outcome: &Outcome, bits_per_sec: f64) -> Result<String, String> {
    draw((760, 520), |area| draw_curves(outcome, bits_per_sec, area))
}

fn draw_curves(
    outcome: &Outcome,
    bits_per_sec: f64,
    area: &Area<'_>,
) -> Result<(), Box<dyn Error>> {
    let (above, below) = area.split_vertically(280);
    let caption = format!("{}, {}", outcome.scenario, outcome.algorithm.name());
    let flows = outcome.rows.first().map_or(0, |row| row.rates.len());
    let rates = (0..flows).map(|flow| {
        let points: Points = outcome.rows.iter().map(|r| (r.ms, r.rates[flow])).collect();
        (format!("flow {}", flow + 1), points)
    });
    let axes = Axes {
        caption: &caption,
        x: ("ms", outcome.milliseconds),
        y: ("Gb/s at the receiver", bits_per_sec / 1e9 * 1.1),
    };
    let key = if flows <= 4 { Key::Inside } else { Key::Hidden };
    chart(&above, &axes, &rates.collect::<Vec<_>>(), key)?;
    let links = outcome.rows.first().map_or(0, |row| row.queue.len());
    let mut queues = Vec::new();
    for link in 0..links {
        let name = |what: &str| match links {
            1 => what.to_owned(),
            _ => format!("{what}, link {}", link + 1),
        };
        let kb = |bytes: usize| bytes as f64 / 1e3;
        let peak: Points = outcome
            .rows
            .iter()
            .map(|r| (r.ms, kb(r.peak[link])))
            .collect();
        let now: Points = outcome
            .rows
            .iter()
            .map(|r| (r.ms, kb(r.queue[link])))
            .collect();
        queues.push((name("most"), peak));
        queues.push((name("now"), now));
    }
    // The queues of the very beginning, before any feedback, would dwarf the rest.
    let late = |points: &Points| {
        let later = points
            .iter()
            .filter(|point| point.0 > outcome.milliseconds / 20.0);
        later.fold(0.0, |top: f64, point| top.max(point.1))
    };
    let top = queues
        .iter()
        .map(|(_, points)| late(points))
        .fold(0.0, f64::max);
    let top = (top * 1.2).max(100.0);
    for (_, points) in &mut queues {
        for point in points {
            point.1 = point.1.min(top);
        }
    }
    let axes = Axes {
        caption: "",
        x: ("ms", outcome.milliseconds),
        y: ("queue, KB", top),
    };
    chart(&below, &axes, &queues, Key::Inside)
}

/// The distribution of the flows' slowdowns relative to their time alone, one line for each
/// outcome.
pub(super) fn slowdowns(outcomes: &[&Outcome]) -> Result<String, String> {
    let lines: Vec<(String, Points)> = outcomes
        .iter()
        .map(|outcome| {
            let name = format!("{}, {}", outcome.algorithm.name(), outcome.loss.name());
            let points = quantiles(outcome).into_iter();
            let points = points.map(|(percent, slowdown, _)| (slowdown.log10(), percent));
            (name, points.collect())
        })
        .collect();
    let axes = Axes {
        caption: outcomes.first().map_or("", |outcome| outcome.scenario),
        x: ("powers of ten of the slowdown", 4.0),
        y: ("percent of flows", 100.0),
    };
    picture((760, 360), &axes, &lines, Key::Inside)
}

/// The data of [`curves`].
pub(super) fn curves_csv(outcome: &Outcome) -> String {
    let mut csv = String::from("ms");
    if let Some(row) = outcome.rows.first() {
        for flow in 1..=row.rates.len() {
            let _ = write!(csv, ",flow{flow}_gbit_per_sec");
        }
        for link in 1..=row.queue.len() {
            let _ = write!(csv, ",queue{link}_bytes,queue{link}_most_bytes");
        }
    }
    csv.push_str(",pauses\n");
    for row in &outcome.rows {
        let _ = write!(csv, "{:.2}", row.ms);
        for rate in &row.rates {
            let _ = write!(csv, ",{rate:.2}");
        }
        for (queue, peak) in row.queue.iter().zip(&row.peak) {
            let _ = write!(csv, ",{queue},{peak}");
        }
        let _ = writeln!(csv, ",{}", row.pauses);
    }
    csv
}

/// The data of [`slowdowns`].
pub(super) fn slowdowns_csv(outcomes: &[&Outcome]) -> String {
    let mut csv = String::from("algorithm,network,percent,slowdown,milliseconds\n");
    for outcome in outcomes {
        let [algorithm, network] = [outcome.algorithm.name(), outcome.loss.name()];
        for (percent, slowdown, ms) in quantiles(outcome) {
            let _ = writeln!(
                csv,
                "{algorithm},{network},{percent:.1},{slowdown:.3},{ms:.4}"
            );
        }
    }
    csv
}

/// For each percentage of flows, the slowdown and the time that they do not exceed.
fn quantiles(outcome: &Outcome) -> Vec<(f64, f64, f64)> {
    let each: &[Completion] = outcome.times.as_ref().map_or(&[], |times| &times.each);
    let mut slowdowns: Vec<f64> = each.iter().map(|c| c.milliseconds / c.alone_ms).collect();
    let mut times: Vec<f64> = each.iter().map(|c| c.milliseconds).collect();
    slowdowns.sort_by(f64::total_cmp);
    times.sort_by(f64::total_cmp);
    let flows = outcome.times.as_ref().map_or(0, |times| times.flows);
    let step = flows.div_ceil(150).max(1);
    let last = slowdowns.len().wrapping_sub(1);
    let some = |n: &usize| n.is_multiple_of(step) || *n == last;
    (0..slowdowns.len())
        .filter(some)
        .map(|n| {
            (
                (n + 1) as f64 * 100.0 / flows as f64,
                slowdowns[n],
                times[n],
            )
        })
        .collect()
}
