//! The expected result of each test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Outcome, here};

/// The message with which tests that need huge pages are skipped if there are none.
const NO_HUGE_PAGES: &str = "There are no huge pages of size 2M allocated";

/// A line of the results that `run.py` writes.
pub(super) fn outcome(line: &str) -> (String, Outcome) {
    let mut words = line.splitn(3, '\t');
    let mut word = || words.next().expect("three words");
    let name = word().strip_prefix("tests.").expect("their module");
    let (outcome, reason) = (word(), word().replace("\\n", "\n"));
    let outcome = match outcome {
        "ok" => Outcome::Ok,
        "skipped" => Outcome::Skipped(reason),
        _ => Outcome::Failed(reason),
    };
    (name.to_owned(), outcome)
}

/// The expected outcomes. The tests in `ok.txt` pass. Those in the tables of `docs/c-api.md` are
/// skipped: the first column is the test, and the second its message.
pub(super) fn expected() -> BTreeMap<String, Outcome> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/c-api.md");
    let docs = fs::read_to_string(docs).expect("docs/c-api.md");
    let skipped = docs.lines().filter_map(skipped);
    let ok = fs::read_to_string(here("ok.txt")).expect("ok.txt");
    let mut expected: BTreeMap<_, _> = skipped.collect();
    for name in ok.lines() {
        let before = expected.insert(name.to_owned(), Outcome::Ok);
        assert_eq!(before, None, "{name} is in ok.txt and in docs/c-api.md");
    }
    assert!(expected.len() >= 170, "only {}", expected.len());
    expected
}

/// A row such as ``| `module.Class.test` | `what it says` | why |``.
fn skipped(row: &str) -> Option<(String, Outcome)> {
    let mut columns = row.split('|').map(str::trim).skip(1);
    let mut code = || columns.next()?.strip_prefix('`')?.strip_suffix('`');
    let name = code()?;
    // The page has tables of functions and programs as well.
    if !name.starts_with("test_") {
        return None;
    }
    let reason = code()?;
    let why = columns.next()?;
    assert!(
        !why.is_empty(),
        "{name}: docs/c-api.md lacks the explanation in the third column"
    );
    Some((name.to_owned(), Outcome::Skipped(reason.to_owned())))
}

/// On a machine without huge pages, the tests that need some are skipped.
pub(super) fn without_huge_pages(expected: &mut BTreeMap<String, Outcome>) {
    for (_, outcome) in expected
        .iter_mut()
        .filter(|(name, _)| name.contains("huge"))
    {
        *outcome = Outcome::Skipped(NO_HUGE_PAGES.to_owned());
    }
}

/// A line for each test whose outcome differs from the expected one, or that only one of the two
/// maps contains.
pub(super) fn differences(
    expected: &BTreeMap<String, Outcome>,
    found: &BTreeMap<String, Outcome>,
) -> Vec<String> {
    let names = expected.keys().chain(found.keys());
    let mut differ: Vec<String> = names
        .filter(|name| expected.get(*name) != found.get(*name))
        .map(|name| {
            let [wanted, found] = [expected, found].map(|of| of.get(name));
            format!("{name}: expected {wanted:?}, found {found:?}")
        })
        .collect();
    differ.sort_unstable();
    differ.dedup();
    differ
}

#[test]
fn rows_of_tables_are_read() {
    let row = "| `test_a.B.test_c` | `Device x doesn't` | since it does not |";
    let read = Outcome::Skipped("Device x doesn't".to_owned());
    assert_eq!(skipped(row), Some(("test_a.B.test_c".to_owned(), read)));
    assert_eq!(skipped("| test | it says | why |"), None);
    assert_eq!(skipped("| `ib_write_bw` | `-c RC` | namespaces |"), None);
    assert_eq!(skipped("|---|---|---|"), None);
}

#[test]
fn each_difference_is_told() {
    let of = |outcomes: &[(&str, Outcome)]| -> BTreeMap<String, Outcome> {
        let named = outcomes.iter().cloned();
        named.map(|(name, o)| (name.to_owned(), o)).collect()
    };
    let skip = |reason: &str| Outcome::Skipped(reason.to_owned());
    let expected = of(&[
        ("alike", Outcome::Ok),
        ("gone", Outcome::Ok),
        ("skipped", Outcome::Ok),
        ("otherwise", skip("this")),
    ]);
    let found = of(&[
        ("alike", Outcome::Ok),
        ("new", Outcome::Ok),
        ("skipped", skip("that")),
        ("otherwise", skip("that")),
    ]);
    let lines = differences(&expected, &found);
    let names: Vec<_> = lines.iter().filter_map(|t| t.split(':').next()).collect();
    assert_eq!(names, ["gone", "new", "otherwise", "skipped"]);
    assert!(differences(&found, &found).is_empty());
}
