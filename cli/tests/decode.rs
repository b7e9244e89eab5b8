//! `roce decode` as a command: its streams and exit codes.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

/// A pcap file with `count` empty packets.
fn capture(count: usize) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    for word in [0x0004_0002_u32, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    file.resize(24 + 16 * count, 0);
    file
}

fn decode() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roce"));
    command.arg("decode");
    command
}

fn run(file: &Path, args: &[&str]) -> Output {
    decode().args(args).arg(file).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_good_file_ends_with_0() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&capture(3)).unwrap();
    let output = run(file.path(), &["--summary"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("3 packets in the file"), "{text}");
}

#[test]
fn a_broken_file_ends_with_1_after_what_could_be_read() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&capture(3)[..70]).unwrap();
    let output = run(file.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let name = file.path().display();
    assert_eq!(
        stderr(&output),
        format!(
            "roce decode: {name}: at offset 56: the file ends in a record header: needs 16 \
             bytes, 14 are left\n"
        )
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("2 packets in the file"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_ends_with_1() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path(), &directory.path().join("nothing")] {
        let output = run(path, &[]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&path.display().to_string()), "{said}");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let output = decode().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = run(Path::new("-"), &["--qpn", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0x0 to 0xffffff"));
}

#[test]
fn standard_input_is_read() {
    let mut child = decode()
        .args(["--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&capture(2)).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["records"], 2);
}

/// A closed pipe, as with `| head`, causes no message and no failure.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // Far more lines than a pipe holds.
    file.write_all(&capture(200_000)).unwrap();
    let mut child = decode()
        .arg("--other")
        .arg(file.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

/// A full disk is an error.
#[test]
fn a_full_disk_ends_with_1() {
    let full = File::options().write(true).open("/dev/full");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&capture(1)).unwrap();
    let output = decode()
        .arg(file.path())
        .stdout(full.expect("/dev/full"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("No space left"), "{output:?}");
}

/// As a shell makes of `roce decode run-*.pcapng`.
#[test]
fn several_files_are_printed_one_behind_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.pcap", "b.pcap"].map(|name| folder.path().join(name));
    std::fs::write(&files[0], capture(3)).unwrap();
    std::fs::write(&files[1], capture(5)).unwrap();
    let missing = folder.path().join("missing");
    let output = decode().args(&files).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let [first, second] = files
        .each_ref()
        .map(|file| format!("{}:\n", file.display()));
    let (before, after) = text.split_once(&second).expect("the second file");
    assert!(before.starts_with(&first), "{text}");
    assert!(before.contains("3 packets in the file"), "{text}");
    assert!(after.contains("5 packets in the file"), "{text}");
    // One that can't be read does not keep the others from being printed.
    let json = [Path::new("--json"), &missing, &files[0], &files[1]];
    let output = decode().args(json).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("missing"), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let types: Vec<_> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(types, ["file", "summary", "file", "summary"]);
    assert_eq!(lines[2]["name"], files[1].display().to_string());
}

/// The packets of a file, as their [`essence`].
fn packets_in(file: &Path) -> Vec<String> {
    let output = run(file, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let values = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let packets = values.filter(|value: &Value| value["type"] == "packet");
    // The device speaks first in its own capture, or answers the other's first packet.
    let sent_to = if file.ends_with("own.pcapng") {
        ".1"
    } else {
        ".2"
    };
    packets
        .filter(|packet| packet["src"].as_str().expect("text").ends_with(sent_to))
        .map(|packet| essence(&packet))
        .collect()
}

/// The fields of a packet that do not depend on where it is captured, nor on whether the kernel has joined
/// several of them.
fn essence(packet: &Value) -> String {
    let fields = [
        "src",
        "dst",
        "src_port",
        "dst_port",
        "ecn",
        "opcode",
        "dest_qpn",
        "psn",
        "payload_len",
        "icrc",
    ];
    fields.map(|name| packet[name].to_string()).join(" ")
}

/// A process, killed when dropped.
struct Running(Child);

impl Running {
    fn interrupt(&self) {
        let id = Pid::from_raw(self.0.id().try_into().expect("an ID"));
        kill(id, Signal::SIGINT).expect("it runs");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Decodes what `program` captures on the loopback while packets pass. It says `listening` on stderr when
/// it has begun.
fn follow(program: &[&str], listening: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    // It ends by itself if a packet is missing.
    let mut source = Command::new("timeout");
    let source = source.arg("60").args(program);
    let source = source.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut source = Running(source.expect("it starts"));
    let mut told = BufReader::new(source.0.stderr.take().expect("piped")).lines();
    let begun = told.find(|line| line.as_ref().is_ok_and(|line| line.contains(listening)));
    assert!(begun.is_some(), "{program:?} has not begun");
    let mut decoder = decode();
    let decoder = decoder
        .args(["--json", "-"])
        .stdin(source.0.stdout.take().expect("piped"));
    let mut decoder = Running(decoder.stdout(Stdio::piped()).spawn().expect("it starts"));
    let stdout = BufReader::new(decoder.0.stdout.take().expect("piped"));
    // Drain the output from the start, so that the pipe never fills up while packets pass.
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str(&line).expect("JSON"));
        }
    });
    let mut lines = lines.into_iter();
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args([
            "perf",
            "--op",
            "send,write,read",
            "--size",
            "5,9000",
            "--mtu",
            "1024",
        ])
        // Interfaces do not see packets that take lanes.
        .args(["--over", "sockets", "--duration", "1", "--iterations", "10"])
        .env("ROCE_PCAP", folder.path().join("own.pcapng"))
        .output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let own = ["own.pcapng", "own-2.pcapng"].map(|name| folder.path().join(name));
    let mut own: Vec<String> = own.iter().flat_map(|file| packets_in(file)).collect();
    assert!(own.len() > 500, "{}", own.len());
    // All of them are printed while the other program goes on.
    let seen: Vec<Value> = lines.by_ref().take(own.len()).collect();
    let mut seen: Vec<String> = seen.iter().map(essence).collect();
    // Ctrl-C interrupts both. The summary still comes.
    decoder.interrupt();
    source.interrupt();
    let summary = lines.next().expect("a summary");
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["packets"], own.len());
    assert_eq!(summary["icrc_ok"], own.len());
    assert!(decoder.0.wait().expect("it ends").success());
    seen.sort();
    own.sort();
    let differing = seen.iter().zip(&own).find(|(one, other)| one != other);
    assert_eq!(differing, None);
}

#[test]
fn captures_of_tcpdump_are_decoded_while_packets_pass() {
    if testkit::is_installed_or_skip("tcpdump") && testkit::enters_network_namespace_or_skip() {
        let tcpdump = ["tcpdump", "-i", "lo", "-B", "65536", "-U", "-w", "-"];
        let filter = ["udp", "port", "4791"];
        follow(&[&tcpdump[..], &filter].concat(), "listening on lo");
    }
}
