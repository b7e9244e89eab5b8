//! Equal paths between leaves: switches choose one by addresses and source port.

use crate::running::{User, run, shared_folder};
use roce_tests::programs::is_installed_or_skip;
use std::fs;

/// Two hosts at different leaves, and four spines.
const OPTIONS: [&str; 9] = [
    "--topology",
    "leaf-spine",
    "--leaves",
    "2",
    "--spines",
    "4",
    "--hosts",
    "1",
    "--report",
];

/// Eight QPs that write from h1 to h2. Without `-F`, perftest fails when a busy machine keeps it from
/// measuring the clock of the processor; with its local ACK timeout of 67 ms (`-u 14`), retries are
/// used up when such a machine keeps the emulator from its work.
const SCRIPT: &str = "
    write='ib_write_bw -F -d roce_eth0 -x 1 -q 8 -s 4096 -n 50 -u 17 -p 19021'
    $ROCE fabric ssh h2 $write & server=$!
    until $ROCE fabric ssh h2 'cat /proc/net/tcp /proc/net/tcp6 | grep -q :4A4D'; do :; done
    $write h2
    wait $server";

/// The number of QPs that take each spine on the way from h1 to h2, as the report shows it, if each
/// QP has one of `ports` source ports.
fn qps_by_spine(ports: &str) -> Option<Vec<usize>> {
    if !is_installed_or_skip("ib_write_bw") {
        return None;
    }
    let folder = shared_folder();
    let folder = folder.path().join("report");
    let folder_name = folder.to_str().expect("text");
    let script = format!("export ROCE_UDP_FLOWS={ports}\n{SCRIPT}");
    let ran = run(
        User::Ordinary,
        &[&OPTIONS[..], &[folder_name]].concat(),
        &script,
    )?;
    ran.ends_with(0);
    let report = fs::read_to_string(folder.join("report.md")).expect("a report");
    let of_spine = |spine| {
        let row = format!("| leaf1 to spine{spine} |");
        // The ports have rows of this name, too, further up.
        let row = report.lines().rfind(|line| line.starts_with(&row));
        let row = row.unwrap_or_else(|| panic!("no {spine} in {report}"));
        row.matches(" to h2, QP ").count()
    };
    Some((1..=4).map(of_spine).collect())
}

/// Source ports follow from the numbers of the QPs, which are random: of eight QPs, all four spines
/// get one in 62 of 100 runs.
#[test]
fn eight_qps_take_all_four_paths() {
    let mut all = Vec::new();
    for _ in 0..12 {
        let Some(spines) = qps_by_spine("128") else {
            return;
        };
        assert_eq!(spines.iter().sum::<usize>(), 8, "{spines:?}");
        let full = spines.iter().all(|&qps| qps > 0);
        all.push(spines);
        if full {
            println!("QPs by spine: {all:?}");
            return;
        }
    }
    panic!("some spine had none in twelve runs: {all:?}");
}

#[test]
fn with_one_source_port_all_qps_take_one_path() {
    if let Some(mut spines) = qps_by_spine("0") {
        spines.sort_unstable();
        assert_eq!(spines, [0, 0, 0, 8]);
    }
}
