//! The figures of the experiment: table, page, CSV, plot.

use super::{Run, run, wire};
use crate::median;
use plotters::prelude::*;
use std::fmt::Write;

/// The probabilities of loss. The first is the baseline of the others.
const LOSSES: [f64; 7] = [0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.05];

/// The lowest acceptable goodput, relative to that without loss.
pub const GOALS: [(f64, f64); 3] = [(0.001, 0.95), (0.01, 0.85), (0.05, 0.55)];

/// READs or WRITEs, and whether the receiver keeps out-of-order packets.
const KINDS: [(bool, bool); 4] = [(false, true), (false, false), (true, true), (true, false)];

/// One run's goodput.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The probability that a packet is lost.
    pub loss: f64,
    /// Whether they are READs rather than WRITEs.
    pub reads: bool,
    /// Whether the receiver keeps out-of-order packets.
    pub selective: bool,
    /// The seed.
    pub seed: u64,
    /// Goodput in Gb/s.
    pub gbit_per_sec: f64,
}

/// All figures.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Messages of each run.
    pub messages: u64,
    /// In the order of the runs.
    pub all: Vec<Figure>,
}

impl Figures {
    /// Runs the experiment: `runs` runs of each kind.
    ///
    /// # Errors
    /// If a run fails; the error contains its seed.
    pub fn measure(messages: u64, runs: u64) -> Result<Self, String> {
        let mut all = Vec::new();
        for (reads, selective) in KINDS {
            for loss in LOSSES {
                for seed in 1..=runs {
                    let outcome = run(&Run {
                        wire: wire(loss),
                        reads,
                        selective,
                        messages,
                        message_bytes: 64 << 10,
                        seed,
                    })?;
                    all.push(Figure {
                        loss,
                        reads,
                        selective,
                        seed,
                        gbit_per_sec: outcome.bits_per_sec / 1e9,
                    });
                }
            }
        }
        Ok(Self { messages, all })
    }

    /// The median goodput of a kind of run, as a fraction of that without loss.
    pub fn share(&self, (reads, selective): (bool, bool), loss: f64) -> Option<f64> {
        let kind = (reads, selective);
        Some(self.goodput(kind, loss)? / self.goodput(kind, 0.0)?)
    }

    fn goodput(&self, kind: (bool, bool), loss: f64) -> Option<f64> {
        let of_kind = |f: &&Figure| (f.reads, f.selective) == kind && f.loss == loss;
        let all: Vec<f64> = self
            .all
            .iter()
            .filter(of_kind)
            .map(|f| f.gbit_per_sec)
            .collect();
        median(&all)
    }

    /// The medians of WRITEs as a Markdown table.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "| loss | selective | of lossless | go-back-N | of lossless | limit (1 - p) | goal | met |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for loss in LOSSES {
            let goal = GOALS.iter().find(|(at, _)| *at == loss);
            let (goal, met) = goal.map_or(("-".into(), "-"), |(_, goal)| {
                let met = self.share((false, true), loss) >= Some(*goal);
                let met = if met { "yes" } else { "**no**" };
                (format!("at least {:.0} %", goal * 100.0), met)
            });
            let limit = (1.0 - loss) * 100.0;
            let cells = self.cells(false, loss);
            let _ = writeln!(table, "{cells} {limit:.2} % | {goal} | {met} |");
        }
        table
    }

    /// The medians of READs as a Markdown table.
    pub fn reads_table(&self) -> String {
        let mut table = String::from(
            "| loss | selective | of lossless | go-back-N | of lossless |\n|---|---|---|---|---|\n",
        );
        for loss in LOSSES {
            table += &self.cells(true, loss);
            table.push('\n');
        }
        table
    }

    /// The beginning of a row: the loss, and the remaining goodput.
    fn cells(&self, reads: bool, loss: f64) -> String {
        let cell = |selective| {
            let kind = (reads, selective);
            let goodput = self.goodput(kind, loss).unwrap_or(f64::NAN);
            let share = self.share(kind, loss).unwrap_or(f64::NAN) * 100.0;
            format!("{goodput:.2} Gb/s | {share:.1} %")
        };
        format!("| {} % | {} | {} |", loss * 100.0, cell(true), cell(false))
    }

    /// The page of documentation.
    pub fn page(&self) -> String {
        let runs = self.all.iter().map(|f| f.seed).max().unwrap_or(0);
        format!(
            include_str!("page.md"),
            messages = self.messages,
            runs = runs,
            table = self.table(),
            reads = self.reads_table(),
        )
    }

    /// Every run.
    pub fn csv(&self) -> String {
        let mut csv = String::from("operation,loss,recovery,seed,gbit_per_sec\n");
        for figure in &self.all {
            let recovery = if figure.selective {
                "selective"
            } else {
                "go-back-n"
            };
            let operation = if figure.reads { "read" } else { "write" };
            let Figure {
                loss,
                seed,
                gbit_per_sec,
                ..
            } = figure;
            let _ = writeln!(
                csv,
                "{operation},{loss},{recovery},{seed},{gbit_per_sec:.3}"
            );
        }
        csv
    }
}

/// Goodput against loss, as SVG.
///
/// # Errors
/// If the plot can't be drawn.
pub fn plot(figures: &Figures) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (720, 420)).into_drawing_area();
        draw(figures, &area).map_err(|e| format!("drawing: {e}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(figures: &Figures, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .caption("Goodput of one QP, messages of 64 KiB", ("sans-serif", 18))
        .build_cartesian_2d((0.02..6.0_f64).log_scale(), 0.0..105.0_f64)?;
    chart
        .configure_mesh()
        .x_desc("packets lost, %")
        .y_desc("of goodput without loss, %")
        .draw()?;
    let lossy = || LOSSES.into_iter().filter(|loss| *loss > 0.0);
    let limit = lossy().map(|loss| (loss * 100.0, (1.0 - loss) * 100.0));
    chart
        .draw_series(LineSeries::new(limit, BLACK.mix(0.4)))?
        .label("limit: 1 - loss")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.mix(0.4)));
    let kinds = [
        ("WRITE, selective", (false, true), BLUE),
        ("READ, selective", (true, true), CYAN),
        ("WRITE, go-back-N", (false, false), RED),
        ("READ, go-back-N", (true, false), MAGENTA),
    ];
    for (name, kind, colour) in kinds {
        let points: Vec<(f64, f64)> = lossy()
            .filter_map(|loss| Some((loss * 100.0, figures.share(kind, loss)? * 100.0)))
            .collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.9))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The goals hold with fewer messages than on the page.
    #[test]
    fn goodput_under_loss_meets_its_goals() {
        let figures = Figures::measure(400, 1).expect("runs");
        for (loss, goal) in GOALS {
            let share = figures.share((false, true), loss);
            assert!(share >= Some(goal), "{share:?} at {loss}: {figures:?}");
            for reads in [false, true] {
                let [selective, go_back] = [true, false].map(|s| figures.share((reads, s), loss));
                assert!(selective > go_back, "{figures:?}");
                // No loss waits for the local ACK timeout, which is 1,600 round trips.
                assert!(go_back > Some(0.1), "{go_back:?} at {loss}: {figures:?}");
            }
        }
        let again = Figures::measure(400, 1).expect("runs");
        assert_eq!(figures.csv(), again.csv(), "a seed gives the same run");
        assert!(plot(&figures).expect("a plot").contains("</svg>"));
    }
}
