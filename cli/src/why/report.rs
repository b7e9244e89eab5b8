//! The report about a program that runs.

use super::losses::Loss;
use crate::error::Error;
use roce_trust::output::{Harmless, say};
use roce_verbs::observation::Totals;
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the program goes on after a failure before the report about it is printed. Most programs
/// end before: then, their own messages come first.
const SETTLED: Duration = Duration::from_secs(2);

/// The file to which the program's processes write why their QPs failed and which calls were refused.
pub(super) struct Report {
    path: PathBuf,
    is_json: bool,
    printed: Mutex<Printed>,
}

/// The part of the file that has been printed.
struct Printed {
    bytes: usize,
    /// The length of the file at the last look, and since when.
    length: usize,
    since: Instant,
    /// Whether a QP has failed.
    has_failures: bool,
}

impl Report {
    /// An empty file, which nobody else can read.
    pub(super) fn create(is_json: bool) -> Result<Self, Error> {
        let failed = |error| Error::system("create a file for the report", error);
        // Nobody else can guess the name.
        let random = getrandom::u64().map_err(|error| failed(io::Error::other(error)))?;
        let ending = if is_json { "jsonl" } else { "txt" };
        let name = format!("roce-why-{random:016x}.{ending}");
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).map_err(failed)?;
        Ok(Self {
            path,
            is_json,
            printed: Mutex::new(Printed {
                bytes: 0,
                length: 0,
                since: Instant::now(),
                has_failures: false,
            }),
        })
    }

    /// Where the program's processes write.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Prints what is new, if nothing has been added for a while: the program has failures and goes on.
    pub(super) fn print_if_settled(&self) {
        let mut printed = self.printed();
        let Ok(text) = fs::read_to_string(&self.path) else {
            return;
        };
        if text.len() != printed.length {
            (printed.length, printed.since) = (text.len(), Instant::now());
        }
        let new = text.get(printed.bytes..).unwrap_or_default();
        let has_failures = printed.has_failures || failures(new);
        let tells = has_failures || unconnected(new);
        if !new.is_empty() && tells && printed.since.elapsed() >= SETTLED {
            if printed.bytes == 0 && !has_failures && !self.is_json {
                say("roce why", heading(new));
            }
            (printed.bytes, printed.has_failures) = (text.len(), has_failures);
            write(new);
        }
    }

    /// Prints the rest, and removes the file: this process may end by the program's signal.
    pub(super) fn print_rest(&self, losses: &[Loss], totals: &Totals) {
        let printed = self.printed();
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                let new = text.get(printed.bytes..).unwrap_or_default();
                let has_failures = printed.has_failures || failures(new);
                if !self.is_json && !has_failures && printed.bytes == 0 {
                    say("roce why", summary(new, losses, totals));
                }
                write(new);
                // At the last look, the process may have waited for what the report explains.
                let explained = |loss: &Loss| !text.is_empty() && loss.is_of_process();
                if !has_failures {
                    for loss in losses.iter().filter(|loss| !explained(loss)) {
                        write(&self.line(loss));
                    }
                }
            }
            Err(error) => say(
                "roce why",
                format!("reading the report {}: {error}", self.path.display()),
            ),
        }
        self.remove();
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, what: &(impl Display + Serialize)) -> String {
        match self.is_json {
            true => serde_json::to_string(what).map_or_else(|_| String::new(), |json| json + "\n"),
            false => format!("roce: {what}\n"),
        }
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn write(text: &str) {
    // There is no place left to report an error.
    let _ = Harmless(io::stderr()).write_all(text.as_bytes());
}

/// Whether a QP has failed or drops packets, in a report as text or JSON.
fn failures(text: &str) -> bool {
    let is_of_qp = |line: &str| {
        let members = ["\"why_code\":", "\"dropped\":"];
        line.starts_with("roce: QP ") || members.iter().any(|member| line.contains(member))
    };
    text.lines().any(is_of_qp)
}

/// Whether a connection was not made.
fn unconnected(text: &str) -> bool {
    let mut lines = text.lines();
    lines.any(|line| line.starts_with("roce: connection") || line.contains("\"event_status\":"))
}

/// The text of a report without failures.
fn summary(text: &str, losses: &[Loss], totals: &Totals) -> &'static str {
    match (text, losses) {
        ("", losses) if losses.iter().any(Loss::is_of_process) => "no QP failed, but this waited:",
        ("", []) if totals.devices_opened > 0 && totals.qps == 0 => {
            "no QP failed: the program ended before one was ready, and its own messages say why"
        }
        ("", []) => "no QP failed",
        ("", losses) if losses.iter().any(Loss::is_loss) => "no QP failed, but packets were lost:",
        ("", _) => "no QP failed, but requests waited:",
        _ => heading(text),
    }
}

/// The text of a report in which no QP has failed.
fn heading(text: &str) -> &'static str {
    match unconnected(text) {
        true => "no QP failed, but connections did:",
        false => "no QP failed, but calls did:",
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

    const TOTALS: Totals = Totals {
        processes: 1,
        devices_opened: 1,
        lists: 1,
        qps: 1,
        connections: 1,
        tx_bytes: 0,
        rx_bytes: 0,
        packets: 0,
        lane_packets: 0,
    };

    #[test]
    fn a_report_without_failed_qps_says_so() {
        let said = |text| summary(text, &[], &TOTALS);
        assert_eq!(said(""), "no QP failed");
        let refused = "roce: ibv_modify_qp: EINVAL: path_mtu is 4096\n";
        assert_eq!(said(refused), "no QP failed, but calls did:");
        assert!(!failures(refused));
        assert!(failures(&format!(
            "{refused}roce: QP 0x000001 of roce_lo failed\n"
        )));
        assert!(failures("{\"qpn\":1,\"why_code\":529}\n"));
    }

    #[test]
    fn a_program_that_made_no_qp_ready_is_told_so() {
        let mut totals = Totals { qps: 0, ..TOTALS };
        let said = summary("", &[], &totals);
        assert!(said.contains("before one was ready"), "{said}");
        totals.devices_opened = 0;
        assert_eq!(summary("", &[], &totals), "no QP failed");
    }
}
