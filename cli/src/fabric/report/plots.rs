//! The plots of a report.

use super::{PLOTTED, Report};
use crate::plot::{Axes, Key, Points, picture, round_up};
use crate::top::format::per_second;
use roce_sim::record::{Add, Curve, FlowRecord, PortRecord, PortTotals, Recorder};

/// The size of each plot in pixels.
const SIZE: (u32, u32) = (1000, 380);

/// The most intervals of a line. More would hide the lines behind one another.
const INTERVALS: usize = 120;

/// The ports whose queues are plotted, with two lines each.
const QUEUES: usize = 4;

pub(super) struct Plot {
    pub(super) file: &'static str,
    pub(super) caption: &'static str,
    /// The sentence below it.
    pub(super) about: String,
    pub(super) svg: String,
}

/// Draws all plots for which there is data.
pub(super) fn draw(report: &Report<'_>) -> Result<Vec<Plot>, String> {
    let mut plots = Vec::new();
    if !report.flows.is_empty() {
        plots.push(flow_rates(report)?);
        plots.push(completion_times(report)?);
    }
    if !report.ports.is_empty() {
        plots.push(port_rates(report)?);
        plots.push(queues(report)?);
    }
    Ok(plots)
}

/// The time axis: its unit, and the units in a second.
struct Time {
    label: &'static str,
    per_second: f64,
    /// The whole time, in the unit.
    end: f64,
}

impl Time {
    fn new(seconds: f64) -> Self {
        let (label, per_second) = match seconds {
            seconds if seconds < 2e-3 => ("time, µs", 1e6),
            seconds if seconds < 2.0 => ("time, ms", 1e3),
            _ => ("time, s", 1.0),
        };
        Self {
            label,
            per_second,
            end: (seconds * per_second).max(f64::MIN_POSITIVE),
        }
    }
}

/// A line that is level in each interval. Neighbouring intervals are joined if there are too many.
fn steps<T: Add>(
    recorder: &Recorder,
    time: &Time,
    curve: &Curve<T>,
    value: impl Fn(&T, f64) -> f64,
) -> Points {
    let axis = recorder.axis();
    let joined = axis.len().div_ceil(INTERVALS).max(1);
    let mut points = Points::new();
    for first in (0..axis.len()).step_by(joined) {
        let mut sum = T::default();
        let mut seconds = 0.0;
        let mut ends = [None; 2];
        for index in first..(first + joined).min(axis.len()) {
            if let Some(next) = curve.get(index) {
                sum.add(next);
            }
            seconds += axis.length(index).as_secs_f64();
            if let Some([begin, end]) = axis.interval(index) {
                ends = [ends[0].or(Some(begin)), Some(end)];
            }
        }
        let value = value(&sum, seconds);
        for end in ends.into_iter().flatten() {
            let since = end.saturating_duration_since(axis.begin());
            points.push((since.as_secs_f64() * time.per_second, value));
        }
    }
    points
}

/// Draws lines over time. The unit of `y` stands in its label.
fn over_time(
    caption: &str,
    y: &str,
    time: &Time,
    lines: &[(String, Points)],
) -> Result<String, String> {
    let values = lines.iter().flat_map(|(_, points)| points);
    let top = values.fold(0.0, |top: f64, (_, value)| top.max(*value));
    let axes = Axes {
        caption,
        x: (time.label, time.end),
        y: (y, round_up(top * 1.05)),
    };
    picture(SIZE, &axes, lines, Key::Beside)
}

fn some_of(plotted: usize, all: usize, what: &str) -> String {
    if plotted < all {
        format!("The {plotted} {what} with the most bytes of {all}.")
    } else {
        format!("All {all} {what}.")
    }
}

fn flow_rates(report: &Report<'_>) -> Result<Plot, String> {
    let time = Time::new(report.seconds());
    let flows = report.plotted_flows();
    let line = |flow: &&FlowRecord| {
        let rate = |bytes: &u64, seconds| per_second(*bytes as f64 * 8.0, seconds) / 1e9;
        let name = report.names.flow(&flow.key);
        (name, steps(report.recorder, &time, &flow.arrivals, rate))
    };
    let lines: Vec<_> = flows.iter().map(line).collect();
    Ok(Plot {
        file: "flows.svg",
        caption: "Throughput of flows",
        about: format!(
            "The rate at which each flow's frames arrive at the host. {}",
            some_of(flows.len(), report.flows.len(), "flows")
        ),
        svg: over_time("Throughput of flows", "Gb/s", &time, &lines)?,
    })
}

/// A line for each of the ports with the most bytes.
fn port_lines(
    report: &Report<'_>,
    ports: &[&PortRecord],
    time: &Time,
    value: impl Fn(&PortTotals) -> f64,
) -> Vec<(String, Points)> {
    let line = |record: &&PortRecord| {
        let at = |totals: &PortTotals, _| value(totals);
        let name = report.names.port(&record.port);
        (name, steps(report.recorder, time, &record.curve, at))
    };
    ports.iter().map(line).collect()
}

fn port_rates(report: &Report<'_>) -> Result<Plot, String> {
    let time = Time::new(report.seconds());
    let ports: Vec<&PortRecord> = report.ports.iter().take(PLOTTED).copied().collect();
    let lines = port_lines(report, &ports, &time, |totals| totals.bits_per_sec() / 1e9);
    Ok(Plot {
        file: "ports.svg",
        caption: "Throughput of ports",
        about: format!(
            "The rate of each port on the wire, with the headers of all layers. {}",
            some_of(ports.len(), report.ports.len(), "ports")
        ),
        svg: over_time("Throughput of ports", "Gb/s", &time, &lines)?,
    })
}

fn queues(report: &Report<'_>) -> Result<Plot, String> {
    let time = Time::new(report.seconds());
    let mut ports = report.ports.clone();
    ports.retain(|record| record.totals.longest_queue > 0);
    ports.sort_by_key(|record| std::cmp::Reverse(record.totals.queue_byte_ns));
    let count = ports.len();
    ports.truncate(QUEUES);
    let longest = port_lines(report, &ports, &time, |t| t.longest_queue as f64 / 1e3);
    let mean = port_lines(report, &ports, &time, |t| t.mean_queue() / 1e3);
    let mut lines = Vec::new();
    for ((name, longest), (_, mean)) in longest.into_iter().zip(mean) {
        lines.push((format!("{name}, longest"), longest));
        lines.push((format!("{name}, mean"), mean));
    }
    Ok(Plot {
        file: "queues.svg",
        caption: "Queues of ports",
        about: format!(
            "The longest and the mean queue of each interval. The {} ports with the longest mean \
             queues of {count} that had one.",
            ports.len()
        ),
        svg: over_time("Queues of ports", "kB", &time, &lines)?,
    })
}

fn completion_times(report: &Report<'_>) -> Result<Plot, String> {
    let times = report.recorder.completion_times();
    let longest = times.last().map_or(0.0, |time| time.as_secs_f64());
    let unit = Time::new(longest);
    let count = times.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    for (number, time) in times.iter().enumerate() {
        let x = time.as_secs_f64() * unit.per_second;
        points.push((x, number as f64 / count * 100.0));
        points.push((x, (number + 1) as f64 / count * 100.0));
    }
    let axes = Axes {
        caption: "Completion times of flows",
        x: (unit.label, round_up(unit.end * 1.02)),
        y: ("percent of flows", 100.0),
    };
    let lines = [("all flows with data".to_owned(), points)];
    Ok(Plot {
        file: "completion.svg",
        caption: "Completion times of flows",
        about: "The share of the flows that took no longer than a time, from the first packet to \
                the last one."
            .to_owned(),
        svg: picture(SIZE, &axes, &lines, Key::Hidden)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::Incast;
    use super::*;

    /// A line has few enough points, and the area below it is what arrived.
    #[test]
    fn joined_intervals_keep_the_mean() {
        let recorder = Incast::new(4).record();
        let axis = recorder.axis();
        assert!(axis.len() > INTERVALS, "{}", axis.len());
        let seconds = axis.end().saturating_duration_since(axis.begin());
        let time = Time::new(seconds.as_secs_f64());
        for flow in recorder.data_flows() {
            let rate = |bytes: &u64, seconds| per_second(*bytes as f64 * 8.0, seconds) / 1e9;
            let points = steps(&recorder, &time, &flow.arrivals, rate);
            assert!(points.len() <= 2 * INTERVALS, "{}", points.len());
            let area = points
                .chunks(2)
                .map(|ends| (ends[1].0 - ends[0].0) * ends[0].1);
            let bytes = area.sum::<f64>() / time.per_second * 1e9 / 8.0;
            let error = (bytes - flow.arrived_bytes as f64).abs();
            assert!(error < 1.0, "{bytes} of {}", flow.arrived_bytes);
        }
    }
}
