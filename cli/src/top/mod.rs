//! `roce top`: a live view of the devices, QPs and traffic of this machine's processes.

pub(crate) mod format;
mod rates;
pub(crate) mod screen;
mod svg;
mod terminal;
mod view;

pub(crate) use format::plain;

use crate::error::Error;
use rates::{Rates, between};
use roce_trust::output;
use roce_verbs::observation::{Processes, watch_processes};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terminal::{Event, Terminal};
use view::{COLUMNS, ROWS, View, draw, max_skip};

/// Arguments of `roce top`.
#[derive(Clone, Debug, clap::Args)]
pub struct TopArgs {
    /// Print one table and end; needs no terminal
    #[arg(long)]
    pub once: bool,

    /// Print a line of JSON in each interval, or a single one with --once
    #[arg(long)]
    pub json: bool,

    /// Interval between updates in seconds, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,

    /// Draw the screen of an 80x24 terminal as SVG, and end
    #[arg(long, value_name = "FILE", hide = true)]
    pub svg: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "it must be a number of seconds from 0.1 to 3600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(wrong())
    }
}

/// The longest time to wait for the processes' answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::new(format_args!("{what}: {source}"))
}

/// Shows the view, or prints it with `--once`, `--json` or `--svg`.
pub fn run(args: &TopArgs) -> Result<ExitCode, Error> {
    if args.json || args.once || args.svg.is_some() {
        print(args)?;
    } else {
        let terminal = Terminal::open().map_err(failed("can't show it"))?;
        live(args, terminal)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn snapshot_processes() -> Result<Processes, Error> {
    watch_processes(ANSWER_TIMEOUT).map_err(failed("can't find processes"))
}

/// Prints on stdout or to a file, without a terminal.
fn print(args: &TopArgs) -> Result<(), Error> {
    let mut before = snapshot_processes()?;
    let mut next = Instant::now();
    loop {
        next += args.interval;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = snapshot_processes()?;
        let rates = between(&before, &now);
        write_once(args, &rates)?;
        if args.once || args.svg.is_some() {
            return Ok(());
        }
        before = now;
    }
}

/// Draws the activity between two snapshots in each form, for the fuzz target `metrics` and for
/// tests.
///
/// # Panics
/// If a line of the text has a control character, or is wider than the screen.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub fn draw_all(before: &Processes, now: &Processes) {
    let rates = between(before, now);
    let json = serde_json::to_string(&rates).expect("numbers and texts");
    assert!(!json.contains('\n'));
    for rows in [None, Some(0), Some(ROWS)] {
        let view = View {
            columns: COLUMNS,
            rows,
            skip: max_skip(&rates, rows.unwrap_or(ROWS)),
            interval: 1.0,
            live: rows.is_some(),
        };
        let screen = draw(&rates, &view);
        for line in screen.text().lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(line.chars().count() <= COLUMNS, "{line:?}");
        }
        let rows = rows.unwrap_or(ROWS);
        assert!(screen.ansi(rows).matches('\n').count() <= rows);
        svg::draw(&screen, rows);
    }
}

fn write_once(args: &TopArgs, rates: &Rates) -> Result<(), Error> {
    let mut view = View {
        columns: COLUMNS,
        rows: None,
        skip: 0,
        interval: args.interval.as_secs_f64(),
        live: false,
    };
    if let Some(file) = &args.svg {
        (view.rows, view.live) = (Some(ROWS), true);
        let picture = svg::draw(&draw(rates, &view), ROWS);
        let written = roce_trust::files::write(file, picture);
        return written.map_err(|error| Error::write(file, &error));
    }
    let text = if args.json {
        serde_json::to_string(rates)? + "\n"
    } else {
        draw(rates, &view).text()
    };
    Ok(output::print_stream(format_args!("{text}"))?)
}

/// Shows the view on a terminal until the user quits.
fn live(args: &TopArgs, mut terminal: Terminal) -> Result<(), Error> {
    let mut before = snapshot_processes()?;
    let mut rates = between(&before, &before);
    let mut skip: usize = 0;
    let mut next = Instant::now() + args.interval;
    loop {
        let (columns, rows) = terminal.size();
        skip = skip.min(max_skip(&rates, rows));
        let view = View {
            columns,
            rows: Some(rows),
            skip,
            interval: args.interval.as_secs_f64(),
            live: true,
        };
        let shown = terminal.show(&draw(&rates, &view).ansi(rows));
        shown.map_err(failed("can't show it"))?;
        match terminal.wait(next).map_err(failed("can't read keys"))? {
            Event::Quit => return Ok(()),
            Event::Resized => {}
            Event::Scroll(lines) => skip = skip.saturating_add_signed(lines),
            Event::Tick => {
                let now = snapshot_processes()?;
                rates = between(&before, &now);
                before = now;
                // A late update does not shorten the next interval.
                next = (next + args.interval).max(Instant::now());
            }
        }
    }
}
