//! Shared parts of this crate's commands.

use crate::page::{machine, write_between};
use crate::report::{Comparison, markdown};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use roce_trust::output::{self, print_line};
use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;

/// The program's name, before its messages.
pub const NAME: &str = "roce-benches";

/// Prints a line. Discards it if the reader of standard output has gone.
///
/// # Errors
/// If it can't be written for another reason.
pub fn print(text: impl Display) -> Result<(), String> {
    print_line(text).map_err(|error| error.to_string())
}

/// Writes a line to stderr.
pub fn say(text: impl Display) {
    output::say(NAME, text);
}

/// The arguments of each command that compares programs.
#[derive(Args, Debug)]
pub struct Comparing {
    /// Number of measurements of each figure
    #[arg(long, default_value_t = 7)]
    pub runs: u32,

    /// A page to write the figures into, between its two marker lines
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// The argument of each command that can measure some of its programs only.
#[derive(Args, Debug)]
pub struct Selecting {
    /// Only the programs with this in their names
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        conflicts_with = "write"
    )]
    pub program: String,
}

impl Comparing {
    /// Prints the table of the measurements, and writes it between the lines marked with `marker`
    /// of the page, if one is given.
    ///
    /// # Errors
    /// If the page can't be written, or lacks these lines.
    pub fn publish(&self, marker: &str, measured: &[Comparison]) -> Result<(), String> {
        let text = markdown(measured, &machine());
        print(&text)?;
        self.write(marker, &text)
    }

    /// Writes `text` between the lines marked with `marker` of the page, if one is given.
    ///
    /// # Errors
    /// If the page can't be written, or lacks these lines.
    pub fn write(&self, marker: &str, text: &str) -> Result<(), String> {
        match &self.write {
            Some(path) => write_between(path, marker, text),
            None => Ok(()),
        }
    }
}

/// A progress bar for `measurements` measurements; its message is the current one.
pub fn progress(measurements: u32) -> ProgressBar {
    let bar = ProgressBar::new(measurements.into());
    match ProgressStyle::with_template("{msg:<24} {wide_bar} {pos}/{len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Starts the next measurement.
pub fn step(bar: &ProgressBar, what: impl Into<Cow<'static, str>>) {
    bar.set_message(what);
    bar.inc(1);
}
