//! The last line of `cargo test --workspace`.

use crate::ledger::{Cargo, ledger};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;

/// Prints, on the stderr of the `cargo` that runs this test, how many tests were skipped, for want of
/// what, and what to do to run them. Then forgets them.
///
/// Cargo runs the documentation tests last, package by package in the order of their names. This
/// package's name is the last one with a library, and the following example is its only one:
///
/// ```
/// testkit::report();
/// ```
pub fn report() {
    let Some(cargo) = Cargo::above() else { return };
    let Some(path) = ledger(Some(&cargo)) else {
        return;
    };
    let skipped = fs::read_to_string(&path).unwrap_or_default();
    let _ = fs::remove_file(path);
    // Rustdoc keeps the output of documentation tests to itself.
    let stderr = OpenOptions::new()
        .append(true)
        .open(format!("/proc/{}/fd/2", cargo.id));
    let _ = stderr.and_then(|mut stderr| writeln!(stderr, "\n{}", summary(&skipped)));
}

/// The line for the tests in a ledger.
fn summary(ledger: &str) -> String {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in ledger.lines() {
        if let Some((need, test)) = line.split_once('\t') {
            groups.entry(need).or_default().insert(test);
        }
    }
    if groups.is_empty() {
        return "SKIPPED: no test".to_owned();
    }
    // A test that lacks two things counts once.
    let tests: BTreeSet<&str> = groups.values().flatten().copied().collect();
    let mut groups: Vec<_> = groups
        .into_iter()
        .map(|(need, tests)| (tests.len(), need))
        .collect();
    groups.sort_by(|one, another| another.0.cmp(&one.0).then(one.1.cmp(another.1)));
    let groups: Vec<_> = groups
        .into_iter()
        .map(|(count, need)| format!("{count} need {need}"))
        .collect();
    format!(
        "SKIPPED: {} tests, which this machine can't run: {}. To run them all: \
         tests/lab/install-packages.sh on Debian 12 or newer, then cargo test --workspace, both as root",
        tests.len(),
        groups.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn tests_are_grouped_by_what_they_need() {
        let line = summary("root\ta\tone\nroot\ta\ttwo\ntshark\ta\tone\nroot\ta\tone\n");
        assert!(
            line.starts_with(
                "SKIPPED: 2 tests, which this machine can't run: 2 need root, 1 need tshark. "
            ),
            "{line}"
        );
    }

    #[test]
    fn nothing_skipped_is_reported_too() {
        assert_eq!(summary(""), "SKIPPED: no test");
    }
}
