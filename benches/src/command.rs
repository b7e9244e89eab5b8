//! What the commands of this crate have in common.

use crate::page::{machine, write_between};
use crate::report::{Comparison, markdown};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code of a command that is done. An error is said first.
pub fn finish(name: &str, result: Result<(), impl Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What every command that compares is asked.
#[derive(Args, Debug)]
pub struct Comparing {
    /// How many times each is measured
    #[arg(long, default_value_t = 7)]
    pub runs: u32,

    /// A page to write the figures into, between its two marker lines
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Comparing {
    /// Prints the table of what was measured, and writes it between the lines of the page
    /// that are marked with `marker`, if there is one to write to.
    ///
    /// # Errors
    /// If the page can't be written, or has no such lines.
    pub fn tell(&self, marker: &str, measured: &[Comparison]) -> Result<(), String> {
        let table = markdown(measured, &machine());
        println!("{table}");
        match &self.write {
            Some(path) => write_between(path, marker, &table),
            None => Ok(()),
        }
    }
}

/// A bar of so many measurements; its message is what is being measured.
pub fn progress(measurements: u32) -> ProgressBar {
    let bar = ProgressBar::new(measurements.into());
    match ProgressStyle::with_template("{msg:<24} {wide_bar} {pos}/{len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The next measurement begins.
pub fn step(bar: &ProgressBar, what: impl Into<Cow<'static, str>>) {
    bar.set_message(what);
    bar.inc(1);
}
