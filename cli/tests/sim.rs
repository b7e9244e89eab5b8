//! `roce sim`, as a user calls it.

use serde_json::Value;
use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roce"))
        .arg("sim")
        .args(args)
        .output()
        .expect("the command runs")
}

fn json(args: &[&str]) -> Value {
    let output = sim(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_few_seeds_pass_and_are_summed_up() {
    let report = json(&["--seeds", "20", "--from", "100", "--jobs", "2"]);
    assert_eq!(report["seeds"], 20);
    assert_eq!(report["violations"], 0);
    assert_eq!(report["from"], 100);
    assert!(report["packets"]["sent"].as_u64() > Some(100), "{report}");
    assert!(report["completions"]["success"].as_u64() > Some(10));
    assert!(report["commit"].as_str().is_some_and(|c| !c.is_empty()));
}

#[test]
fn a_seed_is_the_same_run_alone_or_among_others_whatever_the_jobs() {
    let counted = |args: &[&str]| {
        let report = json(args);
        (report["packets"].clone(), report["completions"].clone())
    };
    let one = counted(&["--seeds", "7", "--from", "0", "--jobs", "1"]);
    assert_eq!(
        one,
        counted(&["--seeds", "7", "--from", "0", "--jobs", "3"])
    );
    let alone = counted(&["--seed", "3"]);
    assert_eq!(alone, counted(&["--from", "3", "--seeds", "1"]));
}

#[test]
fn the_table_ends_with_a_summary() {
    let output = sim(&["--seeds", "3", "--from", "0"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().expect("a line");
    assert!(last.starts_with("3 seeds from 0 in "), "{text}");
    assert!(last.ends_with(": 0 violations"), "{text}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_first_seed_is_drawn_at_random_and_told() {
    let from = || {
        let output = sim(&["--seeds", "2", "--json"]);
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let from = report["from"].as_u64().expect("a seed");
        let told = String::from_utf8_lossy(&output.stderr);
        let again = format!("again: roce sim --seeds 2 --from {from}\n");
        assert!(told.ends_with(&again), "{told}");
        from
    };
    assert_ne!(from(), from());
}

#[test]
fn nonsense_is_refused() {
    for args in [
        &["--seeds", "0"][..],
        &["--seed", "1", "--seeds", "2"],
        &["--jobs", "0"],
        &["--trace"],
    ] {
        assert_eq!(sim(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn an_experiment_is_the_same_twice_and_says_what_was_measured() {
    let args = ["dcqcn", "--scenario", "all-to-all", "--algorithm", "dcqcn"];
    let one = json(&[&args[..], &["--network", "pfc", "--seed", "3"]].concat());
    let outcome = &one["outcomes"][0];
    assert_eq!(outcome["scenario"], "all-to-all");
    assert_eq!(outcome["dropped"], 0);
    assert_eq!(outcome["times"]["flows"], 240);
    assert_eq!(outcome["times"]["unfinished"], 0);
    let again = json(
        &[
            &args[..],
            &["--network", "pfc", "--seed", "3", "--jobs", "1"],
        ]
        .concat(),
    );
    assert_eq!(outcome, &again["outcomes"][0]);
}

#[test]
fn experiments_are_named_and_others_refused() {
    let output = sim(&["dcqcn", "--list"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for name in [
        "incast-16",
        "come-and-go",
        "parking-lot",
        "ns3-two-flows",
        "web-search",
    ] {
        assert!(text.contains(name), "{text}");
    }
    for args in [
        &["dcqcn", "--scenario", "nonsense"][..],
        &["dcqcn", "--algorithm", "nonsense"],
        &["dcqcn", "--network", "nonsense"],
        &["dcqcn", "--write", "docs", "--scenario", "incast-2"],
        &["--seeds", "3", "dcqcn"],
    ] {
        assert_eq!(sim(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    let args = ["power-cut", "--seeds", "30", "--from", "7"];
    let report = json(&args);
    assert_eq!(report["violations"].as_array().map(Vec::len), Some(0));
    assert!(report["power_cuts"].as_u64() >= Some(30), "{report}");
    assert!(report["acknowledged"].as_u64() > Some(1000), "{report}");
    let again = json(&[&args[..], &["--jobs", "1"]].concat());
    assert_eq!(report, again);
    let output = sim(&args);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("30 seeds from 7, commit "), "{text}");
    assert!(text.ends_with(", 0 violations\n"), "{text}");
}
