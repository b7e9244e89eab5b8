//! Findings as a table, or as JSON.

use super::finding::{Finding, Status};
use crate::words::{counted, wrapped};
use roce_trust::output;
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// The whole report. docs/run.md is the schema.
#[derive(Serialize)]
struct Report<'a> {
    status: Status,
    findings: &'a [Finding],
}

/// The worst severity.
pub(super) fn worst(findings: &[Finding]) -> Status {
    let statuses = findings.iter().map(|finding| finding.status);
    statuses.max().unwrap_or(Status::Ok)
}

pub(super) fn print(findings: &[Finding], json: bool) -> io::Result<()> {
    let text = if json {
        let report = Report {
            status: worst(findings),
            findings,
        };
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        text(findings)
    };
    output::print(format_args!("{text}"))
}

/// A line for each finding, with its remedy on a separate line.
fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|f| f.check.chars().count()).max();
    let width = width.unwrap_or_default().min(24);
    let mut text = String::new();
    for finding in findings {
        let label = finding.status.label();
        let indent = 7 + 2 + width + 2;
        let start = format!("{label:<7}  {:<width$}  ", finding.check);
        text += &wrapped(&start, &finding.what, indent);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "{:indent$}    {remedy}", "");
        }
    }
    let count = |status| findings.iter().filter(|f| f.status == status).count() as u64;
    let failures = counted(count(Status::Failure), "failure");
    let _ = writeln!(
        text,
        "\n{failures}, {}",
        counted(count(Status::Warning), "warning")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_remedies_can_be_pasted() {
        let findings = [
            Finding::ok("devices", "roce_lo"),
            Finding::failure("port 4791", format!("{}end", "a word ".repeat(20))).remedy("kill 1"),
        ];
        let expected = "\
ok       devices    roce_lo
FAILURE  port 4791  a word a word a word a word a word a word a word a word a word a word a word a
                    word a word a word a word a word a word a word a word a word end
                        kill 1

1 failure, 0 warnings
";
        assert_eq!(text(&findings), expected);
        assert_eq!(worst(&findings), Status::Failure);
        assert_eq!(worst(&[]), Status::Ok);
    }
}
