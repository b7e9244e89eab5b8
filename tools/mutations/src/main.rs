//! `cargo run -p roce-mutations`: makes each mutation in turn and checks whether the tests detect
//! it.

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use clap::Parser;
use roce_mutations::{
    AllInOne, Copy, Edit, Explained, List, MODULES, OneByOne, Outcome, Results, Runner,
    project_root,
};
use roce_trust::output::{exit_code_of_usage, print_line, say};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

/// Makes each deliberate bug of tools/mutations/list in turn, in a copy of the checkout, and checks
/// whether the tests detect it. The exit code is 1 if a mutation without an explanation survives.
#[derive(Parser)]
struct Arguments {
    /// Only check that each replacement still applies exactly once.
    #[arg(long)]
    check: bool,
    /// Instead of the list, use every mutant that cargo-mutants generates in the modules for PSNs,
    /// the ICRC, opcodes, requesters and responders.
    #[arg(long)]
    modules: bool,
    /// Only the mutations whose names or files contain this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// The number of mutations to test in parallel.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// A file that the results are added to. Mutations whose results are in it are not run again.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// List the mutations, and exit.
    #[arg(long)]
    list: bool,
    /// Build each mutation separately, even those that can share one build.
    #[arg(long)]
    one_by_one: bool,
}

/// The name before messages.
const NAME: &str = "roce-mutations";

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(shown) => return exit_code_of_usage(NAME, shown.print(), !shown.use_stderr()),
    };
    match work(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(NAME, error);
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything is as expected.
fn work(arguments: &Arguments) -> Result<bool, Failure> {
    let root = project_root();
    let list = List::load(&root)?;
    let problems = list.problems(&root);
    for problem in &problems {
        say(NAME, problem);
    }
    if arguments.check || !problems.is_empty() {
        return Ok(problems.is_empty());
    }
    let mut edits: Vec<Edit> = if arguments.modules {
        Edit::by_cargo_mutants(&root, MODULES)?
    } else {
        let edits = list.0.iter().map(|mutation| Edit::of(mutation, &root));
        edits.collect::<Result<_, _>>()?
    };
    let explained = Explained::load(&root)?;
    let mut stale = 0;
    if arguments.modules {
        for explanation in explained.stale(&edits) {
            say(
                NAME,
                format_args!("explained, but there is no such mutant: {explanation:?}"),
            );
            stale += 1;
        }
    }
    let only = &arguments.only;
    let is_chosen =
        |edit: &Edit, text: &String| edit.name.contains(text) || edit.file.contains(text);
    edits.retain(|edit| only.is_empty() || only.iter().any(|text| is_chosen(edit, text)));
    if arguments.list {
        for edit in &edits {
            print_line(format_args!("{} ({}:{})", edit.name, edit.file, edit.line))?;
        }
        return Ok(stale == 0);
    }
    let results = arguments.results.as_deref();
    let results = results.map(Results::open).transpose()?;
    let outcomes = run_all(arguments, &root, edits, results.unwrap_or_default())?;
    Ok(report(&outcomes, &explained, arguments.modules)? && stale == 0)
}

/// Runs the tests against all `edits`.
fn run_all(
    arguments: &Arguments,
    root: &Path,
    edits: Vec<Edit>,
    mut results: Results,
) -> Result<Vec<(Edit, Outcome)>, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let runner = Runner::default();
    let jobs = arguments.jobs.max(1);
    let kind = if arguments.modules { "modules" } else { "list" };
    // Copy at once, because the project may change while the tests run.
    let mut copies = Vec::new();
    for job in 0..jobs {
        let name = format!("{kind}-{job}");
        copies.push(OneByOne(Copy::make(
            root,
            &target,
            &name,
            &BTreeMap::new(),
        )?));
    }
    let (mut outcomes, mut rest) = (Vec::new(), Vec::new());
    for (number, edit) in (1..).zip(&edits) {
        match results.take(&edit.name) {
            Some(outcome) => outcomes.push((edit.clone(), outcome)),
            None => rest.push((number, edit.clone())),
        }
    }
    if !arguments.one_by_one && !rest.is_empty() {
        say(NAME, "putting the mutations into a copy");
        // All of them, so that the programs of an interrupted run need not be built again.
        let all = AllInOne::embed(root, &target, kind, edits)?;
        let tried = in_parallel(&vec![(); jobs], &rest, |(), (number, edit)| {
            let outcome = all.run(&runner, *number)?;
            if let Some(outcome) = &outcome {
                print(edit, outcome)?;
                results.add(&edit.name, outcome)?;
            }
            Ok((*number, edit.clone(), outcome))
        })?;
        rest.clear();
        for (number, edit, outcome) in tried {
            match outcome {
                Some(outcome) => outcomes.push((edit, outcome)),
                None => rest.push((number, edit)),
            }
        }
    }
    outcomes.extend(in_parallel(&copies, &rest, |copy, (_, edit)| {
        let outcome = copy.run(&runner, edit)?;
        print(edit, &outcome)?;
        results.add(&edit.name, &outcome)?;
        Ok((edit.clone(), outcome))
    })?);
    Ok(outcomes)
}

/// Calls `work` for each of `items`, with all of `workers` in parallel.
fn in_parallel<W: Sync, T: Sync, R: Send>(
    workers: &[W],
    items: &[T],
    work: impl Fn(&W, &T) -> io::Result<R> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = Mutex::new(items.iter());
    let take = || next.lock().ok()?.next();
    let one = &|worker: &W| -> io::Result<Vec<R>> {
        std::iter::from_fn(take)
            .map(|item| work(worker, item))
            .collect()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter()
            .map(|worker| scope.spawn(move || one(worker)))
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a worker panicked")??);
        }
        Ok(all)
    })
}

fn print(edit: &Edit, outcome: &Outcome) -> io::Result<()> {
    let Edit { name, line, .. } = edit;
    match outcome {
        Outcome::Caught(by) => {
            print_line(format_args!("{outcome:14} {name} (line {line}), by {by}"))
        }
        _ => print_line(format_args!("{outcome:14} {name} (line {line})")),
    }
}

/// Prints the results. Returns whether everything is as expected.
fn report(
    outcomes: &[(Edit, Outcome)],
    explained: &Explained,
    mechanical: bool,
) -> io::Result<bool> {
    let count = |which: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, o)| which(o)).count();
    let caught = count(|o| matches!(o, Outcome::Caught(_)));
    let hung = count(|o| *o == Outcome::Hung);
    let broken = count(|o| *o == Outcome::DoesNotBuild);
    let survived = count(|o| *o == Outcome::Survived);
    print_line(format_args!(
        "{} mutations: {caught} caught, {hung} made tests hang, {broken} do not build, \
         {survived} survived",
        outcomes.len()
    ))?;
    let mut good = true;
    for (edit, outcome) in outcomes {
        let Edit { name, text, .. } = edit;
        match (outcome, explained.why(edit)) {
            (Outcome::Survived, Some(why)) => {
                print_line(format_args!("survives: {name}\n  {text}\n  {why}"))?;
            }
            (Outcome::Caught(_) | Outcome::Hung, Some(_)) => {
                print_line(format_args!(
                    "explained, but it is caught: {name}\n  {text}"
                ))?;
                good = false;
            }
            (Outcome::Survived, None) => {
                print_line(format_args!(
                    "SURVIVED: {name} (line {})\n  {text}",
                    edit.line
                ))?;
                good = false;
            }
            // A mechanical mutant may fail to compile. One of the list must not.
            (Outcome::DoesNotBuild, _) if !mechanical => {
                print_line(format_args!("DOES NOT BUILD: {name}"))?;
                good = false;
            }
            _ => {}
        }
    }
    Ok(good)
}
