//! perftest's programs, with their options.
//!
//! `ROCE_PERFTEST=all cargo test -p roce-verbs-shim perftest` runs every combination, which takes
//! about half an hour. Without the variable, a selection runs, which takes a minute.

mod by_address;
mod data;
mod matrix;
mod refusals;
mod run;

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use self::run::Run;
use super::pair_for;
use super::place::Place;

/// Whether the complete matrix is requested.
fn runs_all() -> bool {
    std::env::var_os("ROCE_PERFTEST").is_some_and(|value| value == "all")
}

/// Runs all of `runs`, even if some fail, and prints their number on stderr.
fn check(place: &Place<'_>, runs: &[Run]) {
    let is_well = |run: &Run| panic::catch_unwind(AssertUnwindSafe(|| run.check(place))).is_ok();
    let mut failed = Vec::new();
    for run in runs {
        let start = Instant::now();
        if !is_well(run) {
            failed.push(run.words().words);
        }
        if runs_all() {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("{seconds:5.1} s {}: {}", place.name(), run.words().words);
        }
    }
    eprintln!("{} runs of perftest at {}", runs.len(), place.name());
    assert!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
}

#[test]
fn perftest_between_namespaces() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let place = Place::cable(&pair, "udp");
    if runs_all() {
        return check(&place, &matrix::every_combination());
    }
    let mut runs = matrix::none_and_most();
    // On one host, each option of RC is tested.
    let most = |run: &Run| run.service.starts_with('U') || run.program == "ib_send_bw";
    runs.retain(|run| run.choices.is_empty() || most(run));
    check(&place, &runs);
}

#[test]
fn perftest_on_one_host() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    if runs_all() {
        return check(&place, &matrix::every_combination());
    }
    check(&place, &matrix::each_option());
}

#[test]
fn perftest_over_af_xdp() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let mut runs = matrix::none_and_most();
    if !runs_all() {
        runs.retain(|run| run.service == "RC" && run.choices.is_empty());
    }
    check(&Place::cable(&pair, "xdp"), &runs);
}

/// Runs of all sizes at a place: all programs and services if the complete matrix is requested, or
/// else those of `few`. Each size takes a fifth of a second of processor time, in which the program
/// measures the processor's clock.
fn check_all_sizes(place: &Place<'_>, few: [(&str, &str); 2]) {
    if runs_all() {
        return check(place, &matrix::every_size());
    }
    let mut runs = matrix::every_size_plainly();
    runs.retain(|run| few.contains(&(run.program, run.service)));
    check(place, &runs);
}

#[test]
fn perftest_of_all_sizes_between_namespaces() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let few = [("ib_write_bw", "RC"), ("ib_send_bw", "UC")];
    check_all_sizes(&Place::cable(&pair, "udp"), few);
}

#[test]
fn perftest_of_all_sizes_on_one_host() {
    let Some(pair) = pair_for("ib_write_bw") else {
        return;
    };
    let few = [("ib_read_bw", "RC"), ("ib_send_lat", "UD")];
    check_all_sizes(&Place::loopback(&pair.near), few);
}
