//! The programs and arguments to try, and which of them Soft-RoCE supports.

/// The results of some of them: whether they worked from rxe to rxe. The lines are from the output
/// of `ROCE_COMBINATIONS=all` in the lab's folder `kept/programs`.
const LIST: &str = include_str!("combinations.txt");

/// Prefix of a combination that works, and of one that does not.
const WORKS: &str = "works ";
const FAILS: &str = "fails ";

/// The combinations that always run.
const FEW: [&str; 5] = [
    "ibv_rc_pingpong -g 1 -n 100 -c -e",
    "ibv_uc_pingpong -g 1 -n 100 -c",
    "ibv_ud_pingpong -g 1 -n 100 -s 1000 -e",
    "ibv_srq_pingpong -g 1 -n 200 -c",
    "ib_write_bw -x 1 -n 20 -s 16384",
];

/// The combinations to run: those of the environment variable `ROCE_COMBINATIONS` (`all`, or those
/// that contain its words), or else few.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// The combinations in [`FEW`]. Those that are not in the list are tried from rxe to rxe first.
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

/// A program's reason for its failure: usually the last line.
fn reason(failure: &str) -> &str {
    let mut lines = failure.lines().map(str::trim).filter(|line| {
        // Some programs end their output with a ruler.
        line.contains(char::is_alphabetic)
    });
    lines.next_back().unwrap_or_default()
}

/// Whether a combination works from rxe to rxe according to the list. `None` if it is not in the
/// list.
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

/// All combinations.
fn all() -> Vec<String> {
    let mut all = pingpongs();
    for operation in ["write", "read", "send", "atomic"] {
        for service in ["RC", "UC", "UD", "XRC"] {
            if applies(operation, service) {
                all.extend(bandwidth(operation, service));
                all.extend(latency(operation, service));
            } else {
                // Refused, whatever the options are.
                all.push(format!("ib_{operation}_bw -c {service} -x 1 -n 20"));
            }
        }
    }
    all
}

fn pingpongs() -> Vec<String> {
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

/// Whether the service has the operation (IBTA 1.7, 9.2.1, table 38), and Soft-RoCE the service.
fn applies(operation: &str, service: &str) -> bool {
    match service {
        "RC" => true,
        "UC" => matches!(operation, "write" | "send"),
        "UD" => operation == "send",
        _ => false,
    }
}

fn bandwidth(operation: &str, service: &str) -> Vec<String> {
    let with = |gid: u8, options: &str| {
        let size = match options.contains("-s ") {
            true => "",
            false => size(operation, service),
        };
        let combination = format!(
            "ib_{operation}_bw{} -x {gid} -n 20{size} {options}",
            option(service)
        );
        combination.trim_end().to_owned()
    };
    let mut all = vec![with(1, ""), with(0, "")];
    let options = ["-q 16", "-b", "-e", "-b -e -q 16", "-I 64 -s 64"];
    all.extend(options.map(|options| with(1, options)));
    if operation == "send" {
        let options = ["", " -b -e", " -b -e -q 16"];
        all.extend(options.map(|options| with(1, &format!("--use-srq -r 64{options}"))));
    }
    all.push(format!("ib_{operation}_bw{} -x 1 -n 5 -a", option(service)));
    all
}

fn latency(operation: &str, service: &str) -> Vec<String> {
    let base = format!("ib_{operation}_lat{} -x 1 -n", option(service));
    let mut all = ["100", "100 -e", "100 -I 64 -s 64", "5 -a"]
        .map(|options| format!("{base} {options}"))
        .to_vec();
    if operation == "send" {
        let options = ["", " -e"];
        all.extend(options.map(|options| format!("{base} 100 --use-srq -r 64{options}")));
    }
    all
}

fn option(service: &str) -> String {
    match service {
        "RC" => String::new(),
        other => format!(" -c {other}"),
    }
}

/// Messages of several packets, if the service allows them.
fn size(operation: &str, service: &str) -> &'static str {
    match (operation, service) {
        ("atomic", _) => "",
        (_, "UD") => " -s 1024",
        _ => " -s 16384",
    }
}

/// The list contains only combinations that exist, and those that always run do not fail according
/// to it.
#[test]
fn the_list_names_existing_combinations() {
    let all = all();
    for (combination, _) in listing() {
        assert!(
            all.iter().any(|tried| tried == combination),
            "{combination}"
        );
    }
    for combination in FEW {
        assert!(
            all.iter().any(|tried| tried == combination),
            "{combination}"
        );
        assert_ne!(listed(combination), Some(false), "{combination}");
    }
    // The list contains all pingpongs.
    assert!(
        pingpongs()
            .iter()
            .all(|combination| listed(combination).is_some())
    );
}

#[test]
fn the_selection_follows_the_list() {
    let failure = "something\nCouldn't create QP\n-----\n\n";
    assert_eq!(
        line("ib_x -n 5", &Err(failure.to_owned())),
        "fails ib_x -n 5  # Couldn't create QP\n"
    );
    assert_eq!(line("ib_x", &Ok(String::new())), "works ib_x\n");
    assert_eq!(listed("nothing of this"), None);
}
