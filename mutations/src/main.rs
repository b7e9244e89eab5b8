//! `cargo run -p roce-mutations`: makes each mistake in turn and sees whether the
//! tests notice.

use clap::Parser;
use roce_mutations::{Copy, List, Mutation, Outcome, project_root, run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

/// Makes each deliberate bug of mutations/list in turn, in a copy of the checkout, and
/// sees whether the tests notice. Ends with 1 if one survives.
#[derive(Parser)]
struct Arguments {
    /// Only see whether each replacement still applies, exactly once.
    #[arg(long)]
    check: bool,
    /// Only the mutations whose names begin so; may be given several times.
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// How many copies to work in at the same time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print what there is, and do nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match work(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it should be.
fn work(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    let root = project_root();
    let list = List::load(&root)?;
    let problems = list.problems(&root);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if arguments.check || !problems.is_empty() {
        return Ok(problems.is_empty());
    }
    let chosen: Vec<_> = list
        .0
        .into_iter()
        .filter(|m| {
            let only = &arguments.only;
            only.is_empty() || only.iter().any(|id| m.id.starts_with(id.as_str()))
        })
        .collect();
    if arguments.list {
        for mutation in &chosen {
            println!("{:32} {}", mutation.id, mutation.what);
        }
        return Ok(true);
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut copies = Vec::new();
    for number in 0..arguments.jobs.max(1) {
        copies.push(Copy::make(&root, &target, number)?);
    }
    let outcomes = run_all(&copies, &chosen)?;
    let bad: Vec<_> = outcomes.iter().filter(|(_, o)| o.is_bad()).collect();
    println!(
        "{} of {} caught",
        outcomes.len() - bad.len(),
        outcomes.len()
    );
    for (mutation, outcome) in &bad {
        println!("{outcome}: {}: {}", mutation.id, mutation.what);
    }
    Ok(bad.is_empty())
}

type Outcomes<'a> = Vec<(&'a Mutation, Outcome)>;

/// Works through the list in all copies at once.
fn run_all<'a>(
    copies: &[Copy],
    chosen: &'a [Mutation],
) -> Result<Outcomes<'a>, Box<dyn std::error::Error>> {
    let next = Mutex::new(chosen.iter());
    let take = || next.lock().ok()?.next();
    let work = &|copy: &Copy| -> std::io::Result<Outcomes<'a>> {
        prepare(copy)?;
        let mut outcomes = Vec::new();
        while let Some(mutation) = take() {
            let outcome = run(copy, Some(mutation), &mutation.test)?;
            println!("{outcome:14} {}", mutation.id);
            outcomes.push((mutation, outcome));
        }
        Ok(outcomes)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = copies
            .iter()
            .map(|copy| scope.spawn(move || work(copy)))
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| "a worker panicked")??);
        }
        Ok(all)
    })
}

/// The copy must pass as it is, or failures would say nothing.
fn prepare(copy: &Copy) -> std::io::Result<()> {
    let test = "-p roce-stack -p roce-wire --tests";
    match run(copy, None, test)? {
        Outcome::Survived => Ok(()),
        _ => Err(std::io::Error::other(format!(
            "without any mutation, cargo test {test} fails"
        ))),
    }
}
