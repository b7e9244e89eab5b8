//! Findings as a table, or as JSON.

use super::finding::{Finding, Status};
use roce_trust::output;
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// Width of the table, in columns.
const WIDTH: usize = 100;

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

/// Prints it.
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
        let mut line = format!("{label:<7}  {:<width$} ", finding.check);
        let indent = " ".repeat(7 + 2 + width + 2);
        for word in finding.what.split(' ') {
            let is_full = line.chars().count() + 1 + word.chars().count() > WIDTH;
            if is_full && !line.trim().is_empty() {
                let _ = writeln!(text, "{}", line.trim_end());
                line = " ".repeat(indent.len() - 1);
            }
            line.push(' ');
            line.push_str(word);
        }
        let _ = writeln!(text, "{}", line.trim_end());
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "{indent}    {remedy}");
        }
    }
    let count = |status| findings.iter().filter(|f| f.status == status).count();
    let (failures, warnings) = (count(Status::Failure), count(Status::Warning));
    let _ = writeln!(
        text,
        "\n{}, {}",
        plural(failures, "failure"),
        plural(warnings, "warning")
    );
    text
}

fn plural(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
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
