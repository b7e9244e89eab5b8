//! Variables with this project's prefix that nothing reads. Their names are most likely misspelt.

use super::variables::VARIABLES;
use std::fmt;

/// The prefix of the names of all variables of this project.
const PREFIX: &str = "ROCE_";

/// An environment variable that nothing reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The variable that was probably meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Anybody can choose the name, so control characters are escaped.
        let name = self.name.escape_debug();
        write!(
            f,
            "{name} is set, but nothing reads a variable of that name"
        )?;
        match self.nearest {
            Some(nearest) if nearest == self.name => {
                f.write_str(": the program is built without the feature of roce-verbs that does")
            }
            Some(nearest) => write!(f, ": did you mean {nearest}?"),
            None => f.write_str("; `roce variables` lists those that are"),
        }
    }
}

/// The variables that are set, whose names begin with `ROCE_`, and that nothing reads.
pub fn unknown_variables() -> Vec<UnknownVariable> {
    unknown_among(names())
}

/// Whether a variable is set whose name begins with `ROCE_`.
pub(crate) fn is_any_set() -> bool {
    names().any(|name| name.starts_with(PREFIX))
}

fn names() -> impl Iterator<Item = String> {
    std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned())
}

/// Whether anything reads a variable of this name. Features of this crate read some.
fn is_read(name: &str) -> bool {
    match name {
        "ROCE_FAULTS" => cfg!(feature = "faults"),
        "ROCE_METRICS" | "ROCE_PCAP" | "ROCE_WHY" | "ROCE_WHY_PCAP" => cfg!(feature = "observe"),
        _ => VARIABLES.iter().any(|variable| variable.name == name),
    }
}

fn unknown_among(names: impl Iterator<Item = String>) -> Vec<UnknownVariable> {
    let mut unknown: Vec<_> = names
        .filter(|name| name.starts_with(PREFIX) && !is_read(name))
        .map(|name| UnknownVariable {
            nearest: nearest(&name),
            name,
        })
        .collect();
    unknown.sort_by(|a, b| a.name.cmp(&b.name));
    unknown
}

/// The variable for users whose name has the smallest edit distance to `name`. The distance must be
/// at most a third of the known name's length, or `name` must be a prefix of the known name.
fn nearest(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix(PREFIX)?;
    // No known name is longer. The time of the comparison grows with the product of the lengths.
    let rest = rest.get(..64).unwrap_or(rest).to_ascii_uppercase();
    VARIABLES
        .iter()
        .filter(|variable| !variable.values.is_empty())
        .filter_map(|variable| {
            let known = variable.name.strip_prefix(PREFIX)?;
            let edit_distance = edit_distance(&rest, known);
            let is_near = edit_distance * 3 <= known.len().max(3) || known.starts_with(&rest);
            is_near.then_some((edit_distance, variable.name))
        })
        .min()
        .map(|(_, name)| name)
}

/// The edit distance: the number of letters to add, remove or replace to make `b` out of `a`.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, other) in row.iter_mut().skip(1).zip(b.bytes()) {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = *cell;
            *cell = replaced.min(left + 1).min(diagonal + 1);
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion(name: &str) -> Option<Option<&'static str>> {
        let found = unknown_among([name.to_owned()].into_iter());
        found.first().map(|unknown| unknown.nearest)
    }

    #[test]
    fn a_misspelt_name_has_a_suggestion() {
        for (wrong, right) in [
            ("ROCE_FAULT", "ROCE_FAULTS"),
            ("ROCE_DEVICE", "ROCE_DEVICES"),
            ("ROCE_DATAPTH", "ROCE_DATAPATH"),
            ("ROCE_PCAPS", "ROCE_PCAP"),
            ("ROCE_CCC", "ROCE_CC"),
            ("ROCE_METRIC", "ROCE_METRICS"),
            ("ROCE_XDP_QUEUE", "ROCE_XDP_QUEUES"),
            ("ROCE_UDP_BUFFER", "ROCE_UDP_BUFFER_MIB"),
            ("ROCE_Faults", "ROCE_FAULTS"),
        ] {
            assert_eq!(suggestion(wrong), Some(Some(right)), "{wrong}");
        }
    }

    #[test]
    fn an_unlike_name_has_no_suggestion() {
        assert_eq!(suggestion("ROCE_WHATEVER_ELSE"), Some(None));
        assert_eq!(
            suggestion(&format!("ROCE_{}", "X".repeat(100_000))),
            Some(None)
        );
        let text = unknown_among(["ROCE_\x1b[2J".to_owned()].into_iter())[0].to_string();
        assert!(
            !text.contains('\x1b') && text.contains("roce variables"),
            "{text}"
        );
    }

    #[test]
    fn known_names_and_foreign_names_are_not_reported() {
        for name in ["ROCE_PCAP", "ROCE_LAB", "ROCEFAULTS", "PATH", ""] {
            assert_eq!(suggestion(name), None, "{name}");
        }
    }

    #[test]
    fn the_edit_distance_is_right() {
        for (a, b, count) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
        ] {
            assert_eq!(edit_distance(a, b), count, "{a} {b}");
        }
    }
}
