//! The figures of `docs/generated/congestion.md`.

use super::plot::{curves, curves_csv, slowdowns, slowdowns_csv};
use super::report::{COLUMNS, Report, cells};
use crate::error::Error;
use roce_sim::congestion::{Algorithm, Loss, Outcome, catalogue, jain};
use roce_trust::files;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

const BEGIN: &str = "<!-- simulation: begin -->\n";
const END: &str = "<!-- simulation: end -->\n";

/// The scenario that is plotted with every algorithm, not only with DCQCN.
const COMPARED: &str = "incast-8";

/// The scenario in which the second of three flows has two bottlenecks, and the others one each.
const PARKING_LOT: &str = "parking-lot";

/// Writes plots and their data to `dir/congestion`, and tables to `dir/congestion.md`.
pub(super) fn write(dir: &Path, report: &Report) -> Result<(), Error> {
    let folder = dir.join("congestion");
    files::create_folders(&folder).map_err(|error| failed(&folder, error))?;
    let mut rates = BTreeMap::new();
    for scenario in catalogue(report.seed) {
        rates.insert(scenario.name, scenario.bits_per_sec as f64);
    }
    let mut page = String::new();
    table(&mut page, report);
    for outcome in &report.outcomes {
        let first = outcome.algorithm == Algorithm::Dcqcn && outcome.loss == Loss::Pfc;
        let compared = outcome.scenario == COMPARED && outcome.loss == Loss::Pfc;
        if outcome.times.is_some() {
            if first {
                slowdown_section(&folder, report, outcome.scenario, &mut page)?;
            }
        } else if first || compared {
            let name = match first {
                true => outcome.scenario.to_owned(),
                false => format!("{}-{}", outcome.scenario, outcome.algorithm.name()),
            };
            let rate = rates.get(outcome.scenario).copied().unwrap_or(0.0);
            let svg = curves(outcome, rate).map_err(Error::new)?;
            save(&folder, &name, &svg, &curves_csv(outcome))?;
            link_plot(&mut page, &name);
            phases(&mut page, outcome);
            if outcome.scenario == PARKING_LOT {
                fair_shares(&mut page, outcome);
            }
        }
    }
    replace(&dir.join("congestion.md"), &page)
}

fn slowdown_section(
    folder: &Path,
    report: &Report,
    name: &str,
    page: &mut String,
) -> Result<(), Error> {
    let same = report.outcomes.iter().filter(|o| o.scenario == name);
    let outcomes: Vec<&Outcome> = same.collect();
    let svg = slowdowns(&outcomes).map_err(Error::new)?;
    save(folder, name, &svg, &slowdowns_csv(&outcomes))?;
    link_plot(page, name);
    page.push_str(
        "| network | algorithm | flows | not done | p50 ms | p99 ms | slowdown p50 | p99 | p99 ms, up to 100 KB |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let Some(times) = &outcome.times else {
            continue;
        };
        let small = match times.small_p99_ms {
            ms if ms.is_nan() => "–".to_owned(),
            ms => format!("{ms:.2}"),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {small} |",
            outcome.loss.name(),
            outcome.algorithm.name(),
            times.flows,
            times.unfinished,
            times.p50_ms,
            times.p99_ms,
            times.slowdown_p50,
            times.slowdown_p99,
        );
    }
    page.push('\n');
    Ok(())
}

fn table(page: &mut String, report: &Report) {
    let runs = report.outcomes.len();
    let _ = writeln!(
        page,
        "{runs} runs with seed {}, {:.0} s on {} processors:\n",
        report.seed,
        report.seconds,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    let _ = writeln!(page, "| {} |", COLUMNS.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(COLUMNS.len()));
    for outcome in &report.outcomes {
        let _ = writeln!(page, "| {} |", cells(outcome).join(" | "));
    }
    page.push('\n');
}

fn link_plot(page: &mut String, name: &str) {
    let _ = writeln!(
        page,
        "### {name}\n\n![{name}](congestion/{name}.svg)\n\n[data](congestion/{name}.csv)\n"
    );
}

/// The goodput of each flow, for scenarios with few flows.
fn phases(page: &mut String, outcome: &Outcome) {
    page.push_str(
        "| from, to ms | goodput of each flow, Gb/s | Jain | links used % |\n|---|---|---|---|\n",
    );
    for phase in &outcome.phases {
        let rates: Vec<String> = phase
            .goodput
            .iter()
            .map(|(flow, rate)| format!("{}: {rate:.1}", flow + 1))
            .collect();
        let used: Vec<String> = phase
            .utilisation
            .iter()
            .map(|used| format!("{:.1}", used * 100.0))
            .collect();
        let _ = writeln!(
            page,
            "| {:.0}, {:.0} | {} | {:.3} | {} |",
            phase.from_ms,
            phase.to_ms,
            rates.join(", "),
            phase.jain,
            used.join(", "),
        );
    }
    page.push('\n');
}

/// The fair shares in the parking lot, for the total that the links carried. Max-min fairness gives
/// every flow half of a link. Proportional fairness, which maximises the sum of the rates'
/// logarithms, gives a third of a link to the flow with two bottlenecks, and two thirds to the
/// others.
fn fair_shares(page: &mut String, outcome: &Outcome) {
    let Some(phase) = outcome.phases.first() else {
        return;
    };
    let rates: Vec<f64> = phase.goodput.iter().map(|(_, rate)| *rate).collect();
    let [one, both, other] = rates[..] else {
        return;
    };
    let link = f64::midpoint(one + both, other + both);
    page.push_str("| | of flows 1 and 3, Gb/s | of flow 2 | Jain | all |\n|---|---|---|---|---|\n");
    for (name, shares) in [
        ("here", [one, both, other]),
        ("max-min", [link / 2.0; 3]),
        (
            "proportional",
            [link * 2.0 / 3.0, link / 3.0, link * 2.0 / 3.0],
        ),
    ] {
        let [one, both, other] = shares;
        let index = jain(&shares).unwrap_or(f64::NAN);
        let _ = writeln!(
            page,
            "| {name} | {one:.1}, {other:.1} | {both:.1} | {index:.3} | {:.1} |",
            one + both + other,
        );
    }
    page.push('\n');
}

fn save(folder: &Path, name: &str, svg: &str, csv: &str) -> Result<(), Error> {
    for (kind, text) in [("svg", svg), ("csv", csv)] {
        let path = folder.join(format!("{name}.{kind}"));
        files::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Replaces the text between the marker lines of a page.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let old = fs::read_to_string(path).map_err(|error| failed(path, error))?;
    let parts = old
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| {
        let missing = format!("it has no lines {BEGIN:?} and {END:?}");
        failed(path, io::Error::other(missing))
    })?;
    let new = format!("{head}{BEGIN}\n{text}{END}{tail}");
    files::write(path, new).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::write(path, &error)
}
