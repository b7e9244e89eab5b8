//! Which programs are tried with which arguments, and which of them Soft-RoCE supports.

/// Those that Soft-RoCE was tried with, and whether they worked from rxe to rxe. Made by
/// `ROCE_COMBINATIONS=all`, which says where it has put its findings.
const LIST: &str = include_str!("combinations.txt");

/// What stands before a combination that works, and before one that does not.
const WORKS: &str = "works ";
const FAILS: &str = "fails ";

/// Those that are run each time. Between them there is every program, every service, each
/// option, and each role of each.
const FEW: [&str; 4] = [
    "ibv_rc_pingpong -g 1 -n 100 -c -e",
    "ibv_uc_pingpong -g 1 -n 100 -c",
    "ibv_ud_pingpong -g 1 -n 100 -s 1000 -e",
    "ibv_srq_pingpong -g 1 -n 200 -c",
];

/// Which are run: those of the environment variable `ROCE_COMBINATIONS`, `all` or those that
/// contain its words, or else few.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// Few of those that the list says to work.
    Few,
    /// Those that contain these words. Each is tried from rxe to rxe first.
    Tried(String),
}

impl Chosen {
    pub(super) fn from_environment() -> Self {
        match std::env::var("ROCE_COMBINATIONS") {
            Ok(words) if words == "all" => Self::Tried(String::new()),
            Ok(words) if !words.is_empty() => Self::Tried(words),
            _ => Self::Few,
        }
    }

    /// Those of a family of programs.
    pub(super) fn of(&self, family: &str) -> Vec<String> {
        let chosen = match self {
            Self::Few => FEW.map(str::to_owned).to_vec(),
            Self::Tried(words) => all().into_iter().filter(|c| c.contains(words)).collect(),
        };
        chosen
            .into_iter()
            .filter(|combination| combination.starts_with(family))
            .collect()
    }
}

/// A line of the list.
pub(super) fn line(combination: &str, from_rxe_to_rxe: &Result<String, String>) -> String {
    match from_rxe_to_rxe {
        Ok(_) => format!("{WORKS}{combination}\n"),
        Err(failure) => format!("{FAILS}{combination}  # {}\n", reason(failure)),
    }
}

/// What a program says why it ends: mostly the last line.
fn reason(failure: &str) -> &str {
    let mut lines = failure.lines().map(str::trim).filter(|line| {
        // Some programs draw a line under everything.
        line.contains(char::is_alphabetic)
    });
    lines.next_back().unwrap_or_default()
}

/// Whether the list says that a combination works from rxe to rxe. Nothing if it is not there.
pub(super) fn listed(combination: &str) -> Option<bool> {
    listing().find_map(|(words, works)| (words == combination).then_some(works))
}

fn listing() -> impl Iterator<Item = (&'static str, bool)> {
    LIST.lines().filter_map(|line| {
        let words = |rest: &'static str| rest.split("  #").next().unwrap_or_default();
        let works = line.strip_prefix(WORKS).map(|rest| (words(rest), true));
        works.or_else(|| line.strip_prefix(FAILS).map(|rest| (words(rest), false)))
    })
}

/// All that are tried.
fn all() -> Vec<String> {
    let options = [
        ("rc", "-n 100", &["-c", "-c -e", "-c -o", "-c -N", "-t"][..]),
        ("uc", "-n 100", &["-c", "-c -e"]),
        ("ud", "-n 100 -s 1000", &["-c", "-e"]),
        ("srq", "-n 200", &["-c", "-c -e"]),
        ("xsrq", "-n 100", &["", "-e"]),
    ];
    let mut all = Vec::new();
    for (service, base, options) in options {
        for gid in [1, 0] {
            for option in options {
                let combination = format!("ibv_{service}_pingpong -g {gid} {base} {option}");
                all.push(combination.trim_end().to_owned());
            }
        }
    }
    all
}

/// The list is of what is tried, and those that are run each time are said to work.
#[test]
fn every_combination_is_in_the_list() {
    let listed: Vec<&str> = listing().map(|(words, _)| words).collect();
    assert_eq!(all(), listed);
    let works = |combination: &&str| self::listed(combination) == Some(true);
    assert!(FEW.iter().all(works), "not all work: {FEW:?}");
}

#[test]
fn what_is_run_is_read_from_the_list() {
    let failure = "something\nCouldn't create QP\n-----\n\n";
    assert_eq!(
        line("ib_x -n 5", &Err(failure.to_owned())),
        "fails ib_x -n 5  # Couldn't create QP\n"
    );
    assert_eq!(line("ib_x", &Ok(String::new())), "works ib_x\n");
    assert_eq!(listed("nothing of this"), None);
}
