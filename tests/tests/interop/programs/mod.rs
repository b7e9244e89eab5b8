//! Programs as Debian builds them, rdma-core's pingpongs and perftest: on our library outside and
//! on rxe in the guest, each as the other's server and as its client.
//!
//! Combinations that Soft-RoCE itself supports, from rxe to rxe, are required to work.
//! `ROCE_COMBINATIONS=all` tries each combination of program and arguments in the guest first, and
//! requires those that work there to work between us and rxe in both roles. The results are kept in
//! a list, combinations.txt, which must stay true. Without that variable, few combinations run, and
//! those in the list are not tried from rxe to rxe again.

mod combinations;
mod ours;
pub(crate) mod run;
pub(crate) mod stall;

use std::fs;
use std::time::{Duration, Instant};

use roce_tests::lab::Lab;
use roce_tests::programs::{self, is_installed_or_skip};

use combinations::{Chosen, line, listed};
use run::{Run, Server};

/// Timeout of a run.
const TIMEOUT: Duration = Duration::from_secs(150);

/// The TCP port at which all of the programs exchange their addresses.
const PORT: u16 = 18515;

#[test]
fn pingpongs_in_both_roles() {
    in_both_roles("ibv_", "ibv_rc_pingpong");
}

#[test]
fn perftest_in_both_roles() {
    in_both_roles("ib_", "ib_write_bw");
}

/// Runs the selected combinations of a family of programs, of which `program` is one.
fn in_both_roles(family: &str, program: &str) {
    if is_installed_or_skip(program) {
        Lab::try_with(|lab| in_both_roles_with(lab, family));
    }
}

fn in_both_roles_with(lab: &Lab, family: &str) {
    let library = programs::library();
    let chosen = Chosen::from_environment();
    let mut found = String::new();
    let mut failures = Vec::new();
    for combination in chosen.of(family) {
        let run = Run {
            lab,
            library: library.path(),
            combination: &combination,
        };
        let known = listed(&combination);
        if known.is_none() || matches!(chosen, Chosen::Tried(_)) {
            let alone = timed("rxe to rxe", &combination, || run.rxe_alone());
            if known.is_some_and(|works| works != alone.is_ok()) {
                failures.push(format!("{combination}: the list does not say so"));
            }
            found += &line(&combination, &alone);
            keep(lab, family, &found);
            match (alone, &chosen) {
                (Ok(_), _) => {}
                (Err(_), Chosen::Tried(_)) => continue,
                (Err(_), Chosen::Few) => {
                    failures.push(format!("{combination}: not even from rxe to rxe"));
                    continue;
                }
            }
        }
        for server in [Server::Theirs, Server::Ours] {
            let who = format!("server {server:?}");
            if timed(&who, &combination, || run.with_us(server)).is_err() {
                failures.push(format!("{combination}, {who}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Keeps the results, for the list.
fn keep(lab: &Lab, family: &str, found: &str) {
    let folder = lab.keep_directory("programs").expect("a folder");
    fs::write(folder.join(format!("{family}.txt")), found).expect("written");
}

/// Prints the result and duration of a run.
fn timed<T>(
    who: &str,
    combination: &str,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let start = Instant::now();
    let said = run();
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:5.1} s: {who}: {combination}: {}", verdict(&said));
    said
}

fn verdict<T>(said: &Result<T, String>) -> &str {
    match said {
        Ok(_) => "well",
        Err(failure) => failure,
    }
}
