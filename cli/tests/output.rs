//! Commands with output that can't be written: one rule for all.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::NamedTempFile;

/// A measurement that is as short as it can be.
const MEASURE: &str = "perf --op write --size 8 --duration 1 -n 1";

/// Commands that print on stdout.
const COMMANDS: [&str; 19] = [
    "--help",
    "--version",
    "run --help",
    "cdi generate",
    "devices",
    "devices --json",
    "decode CAPTURE",
    "doctor",
    "doctor --json",
    "env",
    "why list",
    "why --json 0x211",
    "sim --seeds 1",
    "sim --seeds 1 --json",
    "sim dcqcn --list",
    "sim power-cut --seeds 1",
    "top --once --interval 0.1",
    MEASURE,
    "perf --json --op write --size 8 --duration 1 -n 1",
];

/// A capture file without packets.
fn capture() -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_le_bytes()).expect("written");
    }
    file
}

/// Where cargo has put the library.
fn library_folder() -> PathBuf {
    let own = std::env::current_exe().expect("it has a path");
    own.parent().expect("it is in a folder").to_owned()
}

fn roce(line: &str, stdout: impl Into<Stdio>) -> Output {
    let capture = capture();
    let words = line.split(' ').map(|word| match word {
        "CAPTURE" => capture.path().as_os_str(),
        word => OsStr::new(word),
    });
    Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(words)
        .env("ROCE_LIBRARY_DIR", library_folder())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("it ends")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_full_disk_is_an_error_that_names_standard_output() {
    let server = "perf --once --port 0 --server 127.0.0.1";
    for line in COMMANDS.into_iter().chain([server]) {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let output = roce(line, full.expect("/dev/full"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        let named = "can't write to standard output: No space left on device";
        assert!(said.contains(named), "{line}: {said}");
        assert!(!said.contains("panicked"), "{line}: {said}");
    }
}

/// As with `| head`: no message, and the exit code that the command has otherwise.
#[test]
fn a_reader_that_has_gone_is_no_error() {
    for line in COMMANDS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = roce(line, writer);
        let with_reader = roce(line, Stdio::null());
        let said = stderr(&output);
        assert_eq!(output.status, with_reader.status, "{line}: {said}");
        assert!(!said.contains("standard output"), "{line}: {said}");
        assert!(!said.contains("roken pipe"), "{line}: {said}");
        assert!(!said.contains("panicked"), "{line}: {said}");
    }
}

/// As with `roce perf | head -1`: the reader goes in the middle.
#[test]
fn a_measurement_whose_reader_goes_after_a_line_ends_quietly() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut reader = BufReader::new(reader);
    let first_line = std::thread::spawn(move || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("text");
        line
    });
    let output = roce(MEASURE, writer);
    let said = stderr(&output);
    let line = first_line.join().expect("no panic");
    assert!(line.ends_with('\n'), "{line}: {said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    for word in ["standard output", "roken pipe", "panicked"] {
        assert!(!said.contains(word), "{said}");
    }
}
