//! The dynamic symbols and their types, as readelf shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use roce_tests::programs::is_installed_or_skip;

use crate::library;

const WANTED: &str = include_str!("../../symbols.txt");

/// The type of a symbol, and the bytes of a variable.
type Kind = (String, u64);

/// The symbols that a library defines, with their versions.
fn defined_in(library: &Path) -> BTreeMap<String, Kind> {
    let shown = Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(library)
        .output()
        .expect("readelf runs");
    let shown = String::from_utf8(shown.stdout).expect("text");
    // Number, value, size, type, binding, visibility, section, name.
    shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        // Not the head of the table, "Num:".
        .filter(|words| words.first().is_some_and(|word| is_number(word)))
        .filter_map(|words| {
            let (size, kind, section, name) =
                (words.get(2)?, words.get(3)?, words.get(6)?, words.get(7)?);
            let is_defined = *section != "UND" && *section != "ABS";
            let bytes = match *kind {
                "OBJECT" => size.parse().expect("a number"),
                _ => 0,
            };
            is_defined.then(|| ((*name).to_owned(), ((*kind).to_owned(), bytes)))
        })
        .collect()
}

/// The symbols of symbols.txt: functions, and a few variables.
fn wanted() -> BTreeMap<String, Kind> {
    let lines = WANTED.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [name, _function] => (name.to_owned(), ("FUNC".to_owned(), 0)),
            [name, kind, bytes] => {
                let bytes = bytes.parse().expect("a number");
                (name.to_owned(), (kind.to_owned(), bytes))
            }
            _ => panic!("{line:?} is no symbol"),
        })
        .collect()
}

#[test]
fn every_symbol_has_its_version_and_type() {
    if !is_installed_or_skip("readelf") {
        return;
    }
    let (found, wanted) = (defined_in(&library::built()), wanted());
    let all: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let differ: Vec<_> = all
        .into_iter()
        .filter(|name| found.get(*name) != wanted.get(*name))
        .map(|name| (name, found.get(name), wanted.get(name)))
        .collect();
    assert!(differ.is_empty(), "name, here, in symbols.txt: {differ:?}");
}

/// This library has each symbol of rdma-core's libraries, with the same version and of the same type: a
/// program that writes a variable would otherwise write into a function.
#[test]
fn every_symbol_of_rdma_core_is_here_with_its_version_and_type() {
    if !is_installed_or_skip("readelf") {
        return;
    }
    let here = defined_in(&library::built());
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let theirs = format!("/usr/lib/{}-linux-gnu/{name}", std::env::consts::ARCH);
        let theirs = Path::new(&theirs);
        if !theirs.is_file() {
            testkit::skip("rdma-core", name);
            return;
        }
        let theirs = defined_in(theirs);
        let differ: Vec<_> = theirs
            .iter()
            .filter(|(name, kind)| here.get(*name) != Some(*kind))
            .collect();
        assert!(
            differ.is_empty(),
            "not here, or of another type: {differ:?}"
        );
        assert!(!theirs.is_empty());
    }
}

/// Whether it is the prefix of a symbol's line in readelf's output: a number and a colon.
fn is_number(word: &str) -> bool {
    let number = word.strip_suffix(':');
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}
