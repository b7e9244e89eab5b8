//! The list of skipped tests of one `cargo test`: a file that all its test programs append to.
//!
//! `.cargo/config.toml` names the folder in the environment variable `TESTKIT_SKIPPED`. The file's
//! name is the process ID and the start time of the `cargo` that runs the tests, so that two at a time
//! keep apart.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// A running `cargo`.
pub(crate) struct Cargo {
    pub(crate) id: u32,
    started: String,
}

impl Cargo {
    /// The nearest ancestor of this process whose name is `cargo`.
    pub(crate) fn above() -> Option<Self> {
        let mut id = std::process::id();
        loop {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // The name is in parentheses, and may contain some.
            let (name, rest) = stat.rsplit_once(')')?;
            let mut fields = rest.split_whitespace();
            // Fields 4 and 22 of proc_pid_stat(5); `rest` begins with field 3.
            let parent = fields.nth(1)?.parse().ok()?;
            if name.ends_with("(cargo") {
                let started = fields.nth(17)?.to_owned();
                return Some(Self { id, started });
            }
            id = parent;
        }
    }
}

/// The file of skipped tests, below this `cargo` or outside of any. Nothing is recorded if the
/// environment does not say where.
pub(crate) fn ledger(cargo: Option<&Cargo>) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("TESTKIT_SKIPPED")?);
    Some(match cargo {
        Some(cargo) => folder.join(format!("{}-{}", cargo.id, cargo.started)),
        None => folder.join("all"),
    })
}

/// Appends a test and the requirement that it lacks. The test is skipped all the same where the
/// file can't be written, as by a user who may not write to the folder of builds.
pub(crate) fn add(test: &str, need: &str) {
    let Some(path) = ledger(Cargo::above().as_ref()) else {
        return;
    };
    let program = std::env::current_exe().unwrap_or_default();
    let line = format!("{need}\t{}\t{test}\n", program.display());
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    // One write of less than a page: lines of several processes do not mix.
    let file = OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}
