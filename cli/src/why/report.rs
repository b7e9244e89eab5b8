//! The report about a program that runs.

use crate::run::RunError;
use crate::say::say;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file to which the program's processes write why their QPs failed and which calls were refused.
pub(super) struct Report {
    path: PathBuf,
    is_json: bool,
}

impl Report {
    /// An empty file, which nobody else can read.
    pub(super) fn create(is_json: bool) -> Result<Self, RunError> {
        let failed = |error| RunError::system("create a file for the report", error);
        // Nobody else can guess the name.
        let random = getrandom::u64()
            .map_err(|error| io::Error::other(error.to_string()))
            .map_err(failed)?;
        let ending = if is_json { "jsonl" } else { "txt" };
        let name = format!("roce-why-{random:016x}.{ending}");
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).map_err(failed)?;
        Ok(Self { path, is_json })
    }

    /// Where the program's processes write.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Prints the report, and removes the file: this process may end by the program's signal.
    pub(super) fn print(&self) {
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                if !self.is_json
                    && let Some(summary) = summary(&text)
                {
                    say("roce why", summary);
                }
                let _ = io::stderr().write_all(text.as_bytes());
            }
            Err(error) => say(
                "roce why",
                format!("reading the report {}: {error}", self.path.display()),
            ),
        }
        self.remove();
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What a report without failures says.
fn summary(text: &str) -> Option<&'static str> {
    match text {
        "" => Some("no QP failed"),
        _ if text.lines().any(|line| line.starts_with("roce: QP ")) => None,
        _ if text
            .lines()
            .any(|line| line.starts_with("roce: connection")) =>
        {
            Some("no QP failed, but connections did:")
        }
        _ => Some("no QP failed, but calls did:"),
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_failed_qps_says_so() {
        assert_eq!(summary(""), Some("no QP failed"));
        let refused = "roce: ibv_modify_qp: EINVAL: path_mtu is 4096\n";
        assert_eq!(summary(refused), Some("no QP failed, but calls did:"));
        let failed = format!("{refused}roce: QP 0x000001 of roce_lo failed\n");
        assert_eq!(summary(&failed), None);
    }
}
