//! `ROCE_WHY_PCAP`: the packets of QPs that fail.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const ROCE: &str = env!("CARGO_BIN_EXE_roce");

/// A measurement between two processes, whose QPs can't reach each other.
fn perf(packets: &Path) -> Output {
    Command::new(ROCE)
        .args(["perf", "--op", "write", "--size", "8"])
        .env("ROCE_FAULTS", "loss=100%")
        .env("ROCE_WHY_PCAP", packets)
        .output()
        .expect("the command starts")
}

/// The packets of a file, as `roce decode` has them. The last line is a summary.
fn decode(file: &Path) -> Vec<Value> {
    let output = Command::new(ROCE)
        .args(["decode", "--json"])
        .arg(file)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let parse = |line| serde_json::from_str(line).expect("JSON");
    let mut lines: Vec<Value> = text.lines().map(parse).collect();
    lines.pop().expect("a summary");
    lines
}

fn comments(packet: &Value) -> String {
    let texts = packet["comments"].as_array().into_iter().flatten();
    texts
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Two runs share the file. In each, the packets end with one that has the explanation.
#[test]
fn the_packets_of_failed_qps_end_with_the_explanation() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("why.pcapng");
    let mut before = 0;
    for run in 1..=2 {
        let output = perf(&file);
        assert!(!output.status.success(), "{output:?}");
        let packets = decode(&file);
        assert!(packets.len() > before + 1, "{}", packets.len());
        before = packets.len();
        let explained = packets.iter().map(comments);
        let explained = explained.filter(|text| text.contains("failed: IBV_WC_RETRY_EXC_ERR"));
        assert_eq!(explained.count(), run, "{packets:#?}");
        let last = comments(packets.last().expect("a packet"));
        assert!(last.contains("no answer to the packet with PSN"), "{last}");
        assert!(last.contains("\n  events    "), "{last}");
    }
}

/// A file that is something else stays as it is, and the program goes on.
#[test]
fn a_file_that_is_no_capture_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "notes").expect("written");
    let output = perf(&file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it is not a pcapng file"), "{said}");
    assert_eq!(std::fs::read(&file).expect("there"), b"notes");
}
