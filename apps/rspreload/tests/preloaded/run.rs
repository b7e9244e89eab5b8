//! Runs a program with the library preloaded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preloaded");

/// How long a program may run before it counts as hanging.
const LIMIT: &str = "60";

/// The library as cargo built it, next to the executable of this test.
fn preloaded() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let built = test.with_file_name("libroce_rspreload.so");
    assert!(
        built.is_file(),
        "no {}: cargo builds it with the tests of its package",
        built.display()
    );
    built
}

/// Compiles a file of this folder, with the calls that glibc checks (`__read_chk`).
fn compile(source: &str, to: &Path, options: &[&str]) {
    let fortified = ["-O2", "-D_FORTIFY_SOURCE=2"];
    let source = Path::new(SOURCES).join(source);
    testkit::compile("cc", source, to, &[&fortified, options].concat());
}

/// The folder with what is compiled, for `LD_LIBRARY_PATH`.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("librdmacm.so.1");
        compile("double.c", &library, &["-shared", "-fPIC", "-lpthread"]);
        for program in ["bytes", "connects", "forks", "go", "numbers", "waits"] {
            let to = folder.path().join(program);
            compile(&format!("{program}.c"), &to, &["-lpthread"]);
        }
        folder
    });
    made.path()
}

/// The traffic of the rsockets of a test's processes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connects: u64,
    pub(crate) accepts: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) closes: u64,
    pub(crate) listens: u64,
}

/// Programs that share a count.
pub(crate) struct Run {
    folder: TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            settings: vec![("ROCE_SOCKETS", String::from("loopback"))],
        }
    }

    /// The same with a variable of the environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// A folder for files.
    pub(crate) fn files(&self) -> &Path {
        self.folder.path()
    }

    /// A program with the library preloaded, which ends after a limit.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=1", LIMIT, "env"])
            .arg(format!("LD_PRELOAD={}", preloaded().display()))
            .arg(program)
            .env("LD_LIBRARY_PATH", folder())
            .env("DOUBLE_COUNTS", self.files().join("counts"))
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a case of a C program of this folder, which must succeed. Returns what it printed on
    /// stderr.
    pub(crate) fn case(&self, program: &str, case: &str) -> String {
        let mut command = self.command(folder().join(program));
        let output = command.arg(case).output().expect("timeout starts");
        succeeded(&output);
        text(&output.stderr)
    }

    pub(crate) fn counts(&self) -> Counts {
        let bytes = fs::read(self.files().join("counts")).unwrap_or_default();
        // The first process makes the file, and then gives it its size.
        let bytes = if bytes.is_empty() { vec![0; 48] } else { bytes };
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")));
        let mut next = || numbers.next().expect("a count");
        Counts {
            connects: next(),
            accepts: next(),
            received: next(),
            sent: next(),
            closes: next(),
            listens: next(),
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn succeeded(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}
