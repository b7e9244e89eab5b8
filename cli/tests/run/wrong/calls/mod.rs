//! Mistakes of one call. The report names the cause first, with the numbers that the program itself
//! printed.
//!
//! The program (`c/wrong`) is written for libibverbs and librdmacm. It starts two processes for each
//! mistake, and knows nothing of reports.

mod own;
mod refused;
mod remote;
mod silent;
mod table;
mod unmade;

use super::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use table::{Expected, MISTAKES, Mistake};

/// A network with an interface besides the loopback, on which nobody else is. $0 is `roce`.
const NETWORK: &str = "
    set -e
    ip link set lo up
    ip link add v0 type veth peer name v1
    ip address add 10.5.0.1/24 dev v0
    ip link set v1 up
    ip link set v0 up
    exec \"$@\"";

/// Builds the program.
fn build(folder: &Path) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/c/wrong");
    let mut files: Vec<PathBuf> = fs::read_dir(sources)
        .expect("it is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "c"))
        .collect();
    files.sort();
    let program = folder.join("mistakes");
    let output = Command::new("gcc")
        .args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .args(files)
        .args(["-libverbs", "-lrdmacm"])
        .output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

/// What the two processes of a mistake have printed and reported.
#[derive(Default)]
struct Found {
    /// Names and values. Those that both ends have begin with the name of the end.
    values: BTreeMap<String, String>,
    /// The reports of client and server.
    reports: [Vec<Value>; 2],
}

/// Runs the program under `roce why`. Returns what came of each mistake.
fn run(who: Who) -> BTreeMap<String, Found> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("allowed");
    let program = build(folder.path());
    let output = who
        .command("timeout")
        .args(["100", "unshare", "--user", "--map-root-user", "--net"])
        .args([
            "sh",
            "-c",
            NETWORK,
            "sh",
            ROCE,
            "why",
            "--json",
            "--library",
        ])
        .arg(library())
        .arg("--")
        .arg(program)
        .output()
        .expect("it starts");
    let told = text(&output.stderr);
    assert!(output.status.success(), "{who:?}: {told}");
    let mut of_processes: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in told.lines().filter(|line| line.starts_with('{')) {
        let report: Value = serde_json::from_str(line).expect("JSON");
        let process = report["process_id"]
            .as_u64()
            .unwrap_or_else(|| panic!("{line}"));
        of_processes.entry(process).or_default().push(report);
    }
    let mut found = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        add_end(&mut found, &mut of_processes, line);
    }
    // A process that is killed prints nothing.
    found
}

/// Adds what one process has printed, and its reports.
fn add_end(
    found: &mut BTreeMap<String, Found>,
    of_processes: &mut BTreeMap<u64, Vec<Value>>,
    line: &str,
) {
    let (heading, values) = line.split_once(" pid=").unwrap_or_else(|| panic!("{line}"));
    let (name, end) = heading.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (process, values) = values.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    let found = found.entry(name.to_owned()).or_default();
    let process_id = process.parse().expect("a number");
    let reports = of_processes.remove(&process_id).unwrap_or_default();
    found.reports[usize::from(end == "server")] = reports;
    let mut add = |name: String, value: &str| {
        let before = found.values.insert(name, value.to_owned());
        assert_eq!(before, None, "{line}");
    };
    add(format!("{end}_pid"), process);
    for (name, value) in values.split(' ').filter_map(|word| word.split_once('=')) {
        match name {
            "qpn" | "psn" => add(format!("{end}_{name}"), value),
            _ => add(name.to_owned(), value),
        }
    }
}

impl Found {
    /// A text with values instead of their names in braces.
    fn filled(&self, template: &str) -> String {
        let mut text = template.to_owned();
        for (name, value) in &self.values {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        text
    }

    /// Checks that the reports of one end are those expected, in their order, and no others.
    fn check_end(&self, who: Who, name: &str, end: usize, expected: &[Expected]) {
        let reports = &self.reports[end];
        let all = || {
            let lines: Vec<_> = reports.iter().map(Value::to_string).collect();
            format!("{who:?}: {name}, end {end}: {}", lines.join("\n"))
        };
        for (report, expected) in reports.iter().zip(expected) {
            let text = self.filled(expected.text);
            assert!(!text.contains(['{', '}']), "{name}: no value for {text}");
            assert_eq!(report[expected.member()], text.as_str(), "{}", all());
            expected.kind.check(report, &all());
            self.check_request(report, &all());
        }
        assert_eq!(reports.len(), expected.len(), "{}", all());
    }

    /// The request that failed is the one that the program has posted.
    fn check_request(&self, report: &Value, all: &str) {
        let request = &report["request"];
        if request.is_null() || request["wr_id"] != 7 || request["rkey"].is_null() {
            return;
        }
        let has = |member: &str, name: &str| {
            let Some(value) = self.values.get(name) else {
                return;
            };
            let digits = value.trim_start_matches("0x");
            let value = u64::from_str_radix(digits, 16).expect("a number");
            assert_eq!(request[member], value, "{all}");
        };
        has("rkey", "rkey");
        if self.values.contains_key("rkey") {
            has("remote_addr", "addr");
        }
    }
}

/// All rows of the table.
fn mistakes() -> impl Iterator<Item = &'static Mistake> {
    MISTAKES.iter().flat_map(|theme| theme.iter())
}

/// Makes every mistake of the table, as one user.
pub(super) fn check_all(who: Who) {
    let found = run(who);
    let made: BTreeSet<&str> = found.keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = mistakes().map(|mistake| mistake.name).collect();
    assert_eq!(made, known, "{who:?}");
    for mistake in mistakes() {
        let found = &found[mistake.name];
        found.check_end(who, mistake.name, 0, mistake.client);
        found.check_end(who, mistake.name, 1, mistake.server);
    }
}

/// Mistakes that the reports tell apart: those with the same text count once.
#[test]
fn at_least_sixty_causes_are_told_apart() {
    let texts: BTreeSet<_> = mistakes().map(|mistake| mistake.cause().text).collect();
    assert!(texts.len() >= 60, "{}", texts.len());
}
