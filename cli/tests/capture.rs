//! `ROCE_PCAP` as a user sets it: two processes, faults, a kill, a full disk.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ROCE: &str = env!("CARGO_BIN_EXE_roce");

/// A short measurement, with a small path MTU, so that there are many packets.
const PERF: &[&str] = &[
    "perf",
    "--json",
    "--op",
    "send,read,fadd",
    "--size",
    "3,3000",
    "--mtu",
    "512",
    "--duration",
    "2",
    "--iterations",
    "20",
];

fn perf(dir: &Path, name: &str, faults: &str) -> Output {
    let mut command = Command::new(ROCE);
    command.args(PERF).current_dir(dir).env("ROCE_PCAP", name);
    if !faults.is_empty() {
        command.env("ROCE_FAULTS", faults);
    }
    command.output().expect("the command starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The packets of a file, the summary, and whether the file is complete.
fn decode(file: &Path) -> (Vec<Value>, Value, bool) {
    let output = Command::new(ROCE)
        .args(["decode", "--json"])
        .arg(file)
        .output()
        .expect("the command starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let summary = lines.pop().expect("a summary");
    (lines, summary, output.status.success())
}

fn with_comment(packets: &[Value], part: &str) -> usize {
    let says = |packet: &&Value| {
        let comments = packet["comments"].as_array().into_iter().flatten();
        comments
            .filter_map(Value::as_str)
            .any(|text| text.contains(part))
    };
    packets.iter().filter(says).count()
}

#[test]
fn two_processes_write_a_file_each_and_every_icrc_is_right() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["run.pcapng", "each-%p.pcapng"] {
        let output = perf(dir.path(), name, "");
        assert!(output.status.success(), "{}", stderr(&output));
        let said = stderr(&output);
        assert_eq!(said.matches("roce: capturing to ").count(), 2, "{said}");
    }
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[2..], ["run-2.pcapng", "run.pcapng"]);
    let mut sources = Vec::new();
    for name in names {
        let (packets, summary, whole) = decode(&dir.path().join(name));
        assert!(whole);
        assert!(packets.len() > 100, "{}", packets.len());
        assert_eq!(summary["icrc_ok"], summary["records"], "{summary}");
        assert!(packets.iter().all(|packet| packet["time"].is_string()));
        sources.push(packets[0]["src"].clone());
    }
    assert_eq!(sources.len(), 4);
}

/// A regression test: only a full disk used to end a capture.
#[test]
fn a_capture_ends_at_its_limit_and_the_program_goes_on() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(ROCE)
        .args(["perf", "--json", "--op", "write", "--size", "65536"])
        .args(["--duration", "50", "--iterations", "100"])
        .current_dir(dir.path())
        .env("ROCE_PCAP", "run-%p.pcapng,limit=1M")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let _: Value = serde_json::from_slice(&output.stdout).expect("a report");
    for part in [
        ".pcapng, at most 1 MiB\n",
        "packets: it has reached its limit of 1 MiB.",
    ] {
        // From both processes.
        assert_eq!(said.matches(part).count(), 2, "{part}: {said}");
    }
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let file = file.unwrap();
        let found = file.metadata().unwrap();
        assert!(
            found.len() <= 1 << 20 && found.len() > 600 << 10,
            "{found:?}"
        );
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let (packets, summary, whole) = decode(&file.path());
        assert!(whole && packets.len() > 100, "{summary}");
    }
}

#[test]
fn faults_and_drops_are_in_the_comments() {
    let dir = tempfile::tempdir().unwrap();
    let output = perf(
        dir.path(),
        "run.pcapng",
        "loss=2%,dup=2%,corrupt=2%,reorder=2%,seed=5",
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (mut all, mut dropped) = (Vec::new(), Vec::new());
    for name in ["run.pcapng", "run-2.pcapng"] {
        let (packets, summary, whole) = decode(&dir.path().join(name));
        assert!(whole);
        // After a flipped bit, a wrong ICRC may be all that can be said about a packet.
        assert_eq!(summary["other"]["records"], 0, "{summary}");
        for packet in &packets {
            // A few bits are not covered by the ICRC: the NIC's verdict is shown.
            let says = |part| with_comment(std::slice::from_ref(packet), part) > 0;
            let is_ok = packet["icrc"]["verdict"] == "ok";
            assert!(is_ok || says("fault_corrupted"), "{packet}");
            assert!(!is_ok || !says("drop_bad_icrc"), "{packet}");
        }
        dropped.push(with_comment(&packets, "dropped: "));
        all.extend(packets);
    }
    for said in [
        "fault: lost (fault_lost)",
        "fault: a duplicate (fault_duplicated)",
        "fault: held back for ",
        "flipped (fault_corrupted)",
        "dropped: bad icrc (drop_bad_icrc)",
    ] {
        assert!(with_comment(&all, said) > 0, "{said}");
    }
    // All drops that the client has counted, and those after it read its counters.
    // With one way, there is one report.
    let ways = report["ways"].as_array().cloned();
    let reports = ways.unwrap_or_else(|| vec![report]);
    let reported = reports
        .iter()
        .map(|way| way["dropped"].as_u64().expect("a count"));
    let reported: u64 = reported.sum();
    assert!(dropped[0] as u64 >= reported, "{dropped:?} {reported}");
}

/// A process that is killed during a capture leaves a file of whole packets.
#[test]
fn a_killed_process_leaves_a_file_that_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("127.66.{}.1", std::process::id() % 251);
    let mut server = Command::new(ROCE)
        .args(["perf", "--port", "0", "--server", &address])
        .current_dir(dir.path())
        .env("ROCE_PCAP", "killed.pcapng")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let port = line.trim().rsplit(' ').next().unwrap();
    let bind = format!("127.66.{}.2", std::process::id() % 251);
    let mut client = Command::new(ROCE)
        .args(["perf", &address, "--port", port, "--bind", &bind])
        .args(["--op", "write", "--size", "64", "--duration", "600000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = dir.path().join("killed.pcapng");
    let is_long = || std::fs::metadata(&file).is_ok_and(|found| found.len() > 1 << 20);
    while !is_long() {
        assert!(client.try_wait().unwrap().is_none(), "the client has ended");
        std::thread::yield_now();
    }
    server.kill().unwrap();
    server.wait().unwrap();
    client.kill().unwrap();
    client.wait().unwrap();
    let (packets, summary, whole) = decode(&file);
    assert!(packets.len() > 1000, "{summary}");
    assert_eq!(summary["icrc_ok"], summary["records"]);
    // At worst the last packet was being written.
    assert!(
        whole
            || summary["error"]
                .as_str()
                .unwrap()
                .contains("the file ends in a block")
    );
}

#[test]
fn a_wrong_name_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    for (name, said) in [
        (
            "nowhere/a.pcapng",
            "cannot write nowhere/a.pcapng: there is no such folder",
        ),
        ("a-%x", "%x stands for nothing"),
        (".", "cannot write .: it is a folder"),
    ] {
        let output = perf(dir.path(), name, "");
        assert_eq!(output.status.code(), Some(2), "{name}");
        let start = format!("roce: ROCE_PCAP is {name:?}: ");
        let text = stderr(&output);
        assert!(text.starts_with(&start) && text.contains(said), "{text}");
    }
    // A command that opens no device writes nothing.
    let status = Command::new(ROCE)
        .arg("devices")
        .current_dir(dir.path())
        .env("ROCE_PCAP", "a.pcapng")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// When the disk is full, the transfer continues, and the file ends with a whole packet.
#[test]
fn a_full_disk_ends_the_capture_only() {
    let dir = tempfile::tempdir().unwrap();
    // A file may have 64 KiB: the first write beyond is cut off, the next one fails. (A
    // shell counts blocks of 512 bytes or of 1024.)
    let output = Command::new("sh")
        .args([
            "-c",
            r#"trap "" XFSZ; ulimit -f 128; exec "$@""#,
            "sh",
            ROCE,
        ])
        .args(PERF)
        .current_dir(dir.path())
        .env("ROCE_PCAP", "full.pcapng")
        .output()
        .unwrap();
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    let _: Value = serde_json::from_slice(&output.stdout).expect("a report");
    for name in ["full.pcapng", "full-2.pcapng"] {
        let start = format!("roce: the capture {name} ends after ");
        let line = text.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        let count: u64 = line[start.len()..]
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(line.contains("packets: File too large"), "{line}");
        let (packets, summary, whole) = decode(&dir.path().join(name));
        assert!(whole, "{summary}");
        assert_eq!(packets.len() as u64, count);
        assert!(count > 20, "{count}");
    }
    assert_eq!(text.matches("ends after").count(), 2, "{text}");
}
