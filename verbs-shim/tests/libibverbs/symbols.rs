//! The dynamic symbols, as readelf shows them.

use std::collections::BTreeSet;
use std::process::Command;

use roce_tests::programs::is_installed_or_skip;

use crate::library;

const WANTED: &str = include_str!("../../symbols.txt");

#[test]
fn every_symbol_has_its_version() {
    if !is_installed_or_skip("readelf") {
        return;
    }
    let shown = Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(library::built())
        .output()
        .expect("readelf runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    // Number, value, size, type, binding, visibility, section, name.
    let found: BTreeSet<&str> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        // Not the head of the table, "Num:".
        .filter(|words| words.first().is_some_and(|word| is_number(word)))
        .filter(|words| {
            words
                .get(6)
                .is_some_and(|section| *section != "UND" && *section != "ABS")
        })
        .filter_map(|words| words.get(7).copied())
        .collect();
    let wanted: BTreeSet<&str> = WANTED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let more: Vec<_> = found.difference(&wanted).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    assert!(more.is_empty(), "not in symbols.txt: {more:?}");
}

/// Whether it is the prefix of a symbol's line in readelf's output: a number and a colon.
fn is_number(word: &str) -> bool {
    let number = word.strip_suffix(':');
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}
