//! The figures as a Markdown page.

use crate::median;
use crate::state::Distance;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A comparison of our figure with another program's, run by run.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The quantity.
    pub what: Cow<'static, str>,
    /// The name of the other program.
    pub with: &'static str,
    /// The unit of both figures.
    pub unit: &'static str,
    /// Our figure and the other one, a pair for each run.
    pub runs: Vec<(f64, f64)>,
    /// The goal for the ratio of ours to the other.
    pub goal: Goal,
}

/// The goal for a ratio.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// No goal.
    None,
}

/// Comparisons of several runs, with the state of the machine.
#[derive(Debug, Default)]
pub struct Runs {
    /// The state of the machine at the beginning of each run, and at the end.
    pub states: Vec<Option<Distance>>,
    /// The comparisons.
    pub rows: Vec<Comparison>,
}

impl Runs {
    /// Measures the state of the machine: before each run, and after the last.
    pub fn note_state(&mut self) {
        self.states.push(Distance::measure());
    }

    /// Adds the figures of a run to the row of this name, or adds the row.
    pub fn add(
        &mut self,
        what: impl Into<Cow<'static, str>>,
        with: &'static str,
        unit: &'static str,
        goal: Goal,
        figures: (f64, f64),
    ) {
        let what = what.into();
        let known = self.rows.iter_mut();
        let mut known =
            known.filter(|row| row.what == what && row.with == with && row.unit == unit);
        match known.next() {
            Some(row) => row.runs.push(figures),
            None => self.rows.push(Comparison {
                what,
                with,
                unit,
                runs: vec![figures],
                goal,
            }),
        }
    }

    /// The text of the page. `network` is what joins the ends.
    pub fn markdown(&self, machine: &str, network: &str) -> String {
        let states = self.states.iter().map(|state| match state {
            Some(distance) => distance.to_string(),
            None => "one processor".to_owned(),
        });
        let states = states.collect::<Vec<_>>().join(", ");
        let runs = self.states.len().saturating_sub(1);
        format!(
            "Machine: {machine}. {network}, {runs} runs. State of the machine before each run and after \
             the last, in us: {states}.\n\n{}",
            table(&self.rows)
        )
    }

    /// The figures of each run.
    pub fn json(&self) -> Value {
        let state = |state: &Option<Distance>| state.map(|distance| distance.0);
        let rows = self.rows.iter().map(|row| {
            json!({
                "what": row.what,
                "with": row.with,
                "unit": row.unit,
                "runs": row.runs,
                "ratio": row.ratio(),
            })
        });
        json!({
            "states_us": self.states.iter().map(state).collect::<Vec<_>>(),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Our figure of a run, and the other one.
type Pair<'a, R> = &'a dyn Fn(&R) -> (f64, f64);

/// A function that makes a comparison of figures that each of `runs` has: what, with, unit, goal, and
/// our figure with the other one.
pub fn compare_each<R>(
    runs: &[R],
) -> impl Fn(&'static str, &'static str, &'static str, Goal, Pair<'_, R>) -> Comparison {
    |what, with, unit, goal, pair| Comparison {
        what: what.into(),
        with,
        unit,
        runs: runs.iter().map(pair).collect(),
        goal,
    }
}

impl Comparison {
    /// A row without figures, for a program that can't be measured.
    pub fn unmeasured(what: impl Into<Cow<'static, str>>, with: &'static str) -> Self {
        Self {
            what: what.into(),
            with,
            unit: "",
            runs: Vec::new(),
            goal: Goal::None,
        }
    }

    /// The median of the ratios.
    pub fn ratio(&self) -> Option<f64> {
        let ratios: Vec<f64> = self
            .runs
            .iter()
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        median(&ratios)
    }

    fn row(&self) -> String {
        let ours: Vec<f64> = self.runs.iter().map(|run| run.0).collect();
        let theirs: Vec<f64> = self.runs.iter().map(|run| run.1).collect();
        let show = |figure: Option<f64>| figure.map_or("-".into(), |f| format!("{f:.2}"));
        let ratio = self.ratio();
        let (goal, met) = match (self.goal, ratio) {
            (Goal::AtLeast(g), Some(r)) => (
                format!("at least {g}"),
                if r >= g { "yes" } else { "**no**" },
            ),
            (Goal::AtMost(g), Some(r)) => (
                format!("at most {g}"),
                if r <= g { "yes" } else { "**no**" },
            ),
            _ => ("-".into(), "-"),
        };
        format!(
            "| {} | {} {unit} | {} {unit} ({}) | **{}** | {goal} | {met} |",
            self.what,
            show(median(&ours)),
            show(median(&theirs)),
            self.with,
            show(ratio),
            unit = self.unit,
        )
    }

    fn each_run(&self) -> String {
        let runs: Vec<String> = self
            .runs
            .iter()
            .map(|(ours, theirs)| format!("{ours:.2} / {theirs:.2}"))
            .collect();
        format!(
            "- {}, ours / theirs in {}: {}",
            self.what,
            self.unit,
            runs.join(", ")
        )
    }
}

/// A table with a row for each comparison.
pub fn table(comparisons: &[Comparison]) -> String {
    let mut table =
        "| what | ours, median | theirs, median | ratio, median | goal | met |\n".to_owned();
    table += "|---|---|---|---|---|---|\n";
    for comparison in comparisons {
        table += &comparison.row();
        table.push('\n');
    }
    table
}

/// The table of the page, and the figures of each run.
pub fn markdown(comparisons: &[Comparison], machine: &str) -> String {
    let mut page = format!("Machine: {machine}.\n\n{}", table(comparisons));
    page += "\nEach run:\n\n";
    for comparison in comparisons.iter().filter(|of| !of.runs.is_empty()) {
        page += &comparison.each_run();
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_has_a_row_and_no_runs() {
        let text = markdown(&[Comparison::unmeasured("a program", "TCP")], "a machine");
        assert!(
            text.contains("\n| a program | -  | -  (TCP) | **-** | - | - |\n"),
            "{text}"
        );
        assert!(text.ends_with("Each run:\n\n"), "{text}");
    }
}
