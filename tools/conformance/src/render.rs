//! Generates the tables in `docs/`. They link to files, not to lines, so they change only when
//! rules, citations or names change.

use crate::book::{Chapter, Rule, Status};
use crate::cite::{Citation, Kind};
use crate::report::Report;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const NOTE: &str = "<!-- Written by `cargo run -p roce-conformance -- --write`: change \
                    tools/conformance/rules or the citations instead. -->\n\n";

impl Report {
    /// The generated documents: path relative to the project's folder, and text.
    pub fn documents(&self) -> [(&'static str, String); 2] {
        [
            ("docs/generated/conformance.md", conformance(self)),
            ("docs/design/traps.md", traps(self)),
        ]
    }

    /// The documents that are out of date.
    pub fn outdated(&self, root: &Path) -> Vec<String> {
        self.documents()
            .into_iter()
            .filter(|(path, text)| {
                std::fs::read_to_string(root.join(path)).map_or(true, |found| found != *text)
            })
            .map(|(path, _)| {
                format!("{path} is out of date: cargo run -p roce-conformance -- --write")
            })
            .collect()
    }
}

fn conformance(report: &Report) -> String {
    let mut out = String::from(NOTE);
    out.push_str("# Which rules the stack follows\n\n");
    out.push_str(
        "The table paraphrases the rules. Section numbers are those of the InfiniBand Architecture \
         Specification, volume 1, release 1.7 (A11, A14, A16, A17 and A19 are its annexes). A \
         section is only as precise as we are sure of. An ID that begins with CA17 has the number of \
         a compliance statement of RoCEv2's annex. Code cites a rule with `// rule: ID`, and \
         a test that fails when the rule is broken with `// shows: ID`. A test of tools/conformance/ \
         finds rules without code, rules without tests, and citations of rules that don't \
         exist.\n\n",
    );
    out.push_str("| chapter | implemented | not yet | does not apply |\n|---|--:|--:|--:|\n");
    let mut sum = [0; 3];
    for chapter in &report.book.chapters {
        let counts = count(chapter);
        let anchor = anchor(&chapter.title);
        let _ = writeln!(
            out,
            "| [{}](#{anchor}) | {} | {} | {} |",
            chapter.title, counts[0], counts[1], counts[2]
        );
        for (total, n) in sum.iter_mut().zip(counts) {
            *total += n;
        }
    }
    let _ = writeln!(
        out,
        "| **{} rules** | **{}** | **{}** | **{}** |",
        sum.iter().sum::<usize>(),
        sum[0],
        sum[1],
        sum[2]
    );
    for chapter in &report.book.chapters {
        let _ = write!(out, "\n## {}\n\n", chapter.title);
        out.push_str("| rule | section | asks for | code | shown by |\n|---|---|---|---|---|\n");
        for rule in &chapter.rules {
            row(&mut out, report, rule);
        }
    }
    out
}

fn row(out: &mut String, report: &Report, rule: &Rule) {
    let Rule {
        id, section, text, ..
    } = rule;
    let (code, tests) = match rule.status {
        Status::Implemented => (
            files(report.citations.of(Kind::Rule, id)),
            tests(report.citations.of(Kind::Shows, id)),
        ),
        status => (reason(status, rule.why.as_deref()), String::new()),
    };
    let section = section.trim_start_matches("IBTA 1.7, ");
    let _ = writeln!(out, "| `{id}` | {section} | {text} | {code} | {tests} |");
}

fn traps(report: &Report) -> String {
    let mut out = String::from(NOTE);
    out.push_str("# Where other implementations went wrong\n\n");
    out.push_str(
        "Each of these cost users of some RDMA implementation real time, as bug trackers, \
         mailing lists and papers show. Tests cite them with `// trap: ID`.\n\n",
    );
    out.push_str("| trap | what goes wrong, and what is right | shown by |\n|---|---|---|\n");
    for trap in &report.book.traps {
        let state = match trap.status {
            Status::Implemented => tests(report.citations.of(Kind::Trap, &trap.id)),
            status => reason(status, trap.why.as_deref()),
        };
        let _ = writeln!(out, "| `{}` | {} | {state} |", trap.id, trap.text);
    }
    out
}

/// Why something is not implemented.
fn reason(status: Status, why: Option<&str>) -> String {
    let status = match status {
        Status::DoesNotApply => "does not apply",
        _ => "not yet",
    };
    format!("{status}: {}", why.unwrap_or_default())
}

fn count(chapter: &Chapter) -> [usize; 3] {
    let of = |status| chapter.rules.iter().filter(|r| r.status == status).count();
    [
        of(Status::Implemented),
        of(Status::NotYet),
        of(Status::DoesNotApply),
    ]
}

fn files<'a>(citations: impl Iterator<Item = &'a Citation>) -> String {
    let files: BTreeSet<_> = citations.map(|c| c.file.as_str()).collect();
    let links: Vec<_> = files.into_iter().map(|file| link(file, file)).collect();
    links.join("<br>")
}

fn tests<'a>(citations: impl Iterator<Item = &'a Citation>) -> String {
    let tests: BTreeSet<_> = citations
        .filter_map(|c| Some((c.file.as_str(), c.test.as_deref()?)))
        .collect();
    let links: Vec<_> = tests
        .into_iter()
        .map(|(file, test)| link(test, file))
        .collect();
    links.join("<br>")
}

/// Paths of code omit `src/` to save space.
fn link(name: &str, file: &str) -> String {
    let name = name.replacen("/src/", "/", 1);
    format!("[{name}](../../{file})")
}

/// A heading's anchor on GitHub.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-')
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}
