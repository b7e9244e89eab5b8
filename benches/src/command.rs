//! Shared parts of this crate's commands.

use crate::page::{machine, write_between};
use crate::report::{Comparison, markdown};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::path::PathBuf;

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

impl Comparing {
    /// Prints the table of the measurements, and writes it between the lines marked with `marker`
    /// of the page, if one is given.
    ///
    /// # Errors
    /// If the page can't be written, or lacks these lines.
    pub fn publish(&self, marker: &str, measured: &[Comparison]) -> Result<(), String> {
        let table = markdown(measured, &machine());
        println!("{table}");
        match &self.write {
            Some(path) => write_between(path, marker, &table),
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
