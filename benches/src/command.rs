//! What the commands of this crate have in common.

use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::fmt::Display;
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
