//! tshark agrees with the captures of `ROCE_PCAP`: each field of each packet, each ICRC, and the
//! comments.

use roce_tests::decode::{assert_decode_agrees_but_for_icrcs, decode};
use roce_tests::programs::{is_installed_or_skip, roce};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is deleted at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("roce-capture-{}", std::process::id()));
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// tshark's output for a file: a line for each packet, with fields between tabs.
fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-r"]).arg(file);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

#[test]
fn tshark_reads_what_a_port_has_captured() {
    let dir = Folder::new();
    let output = Command::new(roce())
        .args([
            "perf",
            "--json",
            "--op",
            "send,write,read,cas,fadd",
            "--size",
            "5,3000",
        ])
        .args(["--mtu", "1024", "--duration", "2", "--iterations", "20"])
        .current_dir(&dir.0)
        .env("ROCE_PCAP", "run.pcapng")
        .env("ROCE_FAULTS", "loss=2%,dup=2%,reorder=2%,seed=5")
        .output()
        .expect("roce runs");
    assert!(output.status.success(), "{output:?}");
    for name in ["run.pcapng", "run-2.pcapng"] {
        let file = dir.0.join(name);
        let count = assert_decode_agrees_but_for_icrcs(&file);
        let ours = decode(&file);
        assert_eq!(ours.len(), count);
        assert!(count > 500, "{count}");
        // Nothing was damaged, so each ICRC is right, which that function does not check.
        assert!(ours.iter().all(|packet| packet["icrc"]["verdict"] == "ok"));
        if !is_installed_or_skip("tshark") {
            continue;
        }
        let theirs = tshark(
            &file,
            &["frame.time_epoch", "frame.interface_name", "frame.comment"],
        );
        assert_eq!(theirs.len(), count);
        let mut commented = 0;
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours["time"], theirs[0].as_str());
            assert_eq!(theirs[1], "lo");
            let comments = ours["comments"].as_array().into_iter().flatten();
            let comments: Vec<_> = comments.filter_map(Value::as_str).collect();
            assert_eq!(comments.join(","), theirs[2]);
            commented += usize::from(!comments.is_empty());
        }
        assert!(commented > 0);
    }
}
