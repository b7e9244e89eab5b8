//! docs/wrong.md, which a test writes if `WRITE_DOCS` is set, and otherwise compares with what it would write:
//! some scenes with their reports, and a row for each of the others.

use super::*;
use std::fmt::Write as _;

const INTRODUCTION: &str = include_str!("wrong.md");

/// Writes the page, or compares it with the one that is there.
pub(super) fn check(scenes: &[&Scene], told: &[Told]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wrong.md");
    let text = page(scenes, told);
    if std::env::var_os("WRITE_DOCS").is_some() {
        return fs::write(path, text).expect("written");
    }
    let there = fs::read_to_string(path).unwrap_or_default();
    let (there, printed) = (comparable(&there), comparable(&text));
    for (number, (there, printed)) in there.iter().zip(&printed).enumerate() {
        assert_eq!(there, printed, "line {number} of docs/wrong.md {STALE}");
    }
    assert_eq!(there.len(), printed.len(), "docs/wrong.md {STALE}");
}

fn page(scenes: &[&Scene], told: &[Told]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let shown = scenes.iter().zip(told);
    for (scene, told) in shown.filter(|(scene, _)| scene.is_on_page) {
        section(&mut text, scene, told);
    }
    text.push_str(
        "\n## More mistakes\n\n| mistake | what happens | what to change |\n|---|---|---|\n",
    );
    for scene in scenes.iter().filter(|scene| !scene.is_on_page) {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            scene.title, scene.about, scene.mend
        );
    }
    text
}

fn section(page: &mut String, scene: &Scene, told: &Told) {
    let _ = write!(page, "\n## {}\n\n{}\n", scene.title, wrapped(scene.about));
    page.push_str("\n```sh\n");
    let commands = [
        ("", scene.before),
        ("  # the server", scene.run.server),
        ("", scene.breaks),
        ("  # the client", scene.run.client),
    ];
    for (who, commands) in commands {
        for line in commands.lines().filter(|line| !is_hidden(line)) {
            let _ = writeln!(page, "{}{who}", shown(line));
        }
    }
    page.push_str("```\n");
    if !scene.says.is_empty() {
        let said = scene.says.join("\n");
        let _ = write!(page, "\nThe user sees:\n\n```text\n{said}\n```\n");
    }
    let ends = [
        ("server", scene.reports.server, &told.reports.server),
        ("client", scene.reports.client, &told.reports.client),
    ];
    for (end, parts, report) in ends {
        if !parts.is_empty() {
            let report = without_events(report);
            let _ = write!(page, "\nThe report of the {end}:\n\n```text\n{report}```\n");
        }
    }
    let mend = wrapped(&format!("**Fix**: {}", scene.mend));
    let _ = write!(page, "\n{mend}\n");
}

/// A report without the QP's last events, which end it.
fn without_events(report: &str) -> String {
    let mut is_event = false;
    let kept = report.split_inclusive('\n').filter(|line| {
        is_event = line.starts_with("  events ") || is_event && line.starts_with("   ");
        !is_event
    });
    kept.collect()
}

/// Whether a line does nothing.
fn is_hidden(line: &str) -> bool {
    line.trim() == ":"
}

/// A paragraph in lines of at most 120 characters.
fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= 120;
            text.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        text.push_str(word);
        column += length;
    }
    text
}

/// A command of a scene as users see it: without the variables of the script.
fn shown(line: &str) -> String {
    line.trim()
        .replace("$far ", "server# ")
        .replace("$router ", "router# ")
        .replace("when_busy \"$far\"", "when_busy server#")
        .replace("rule ''", "rule client")
        .replace("\"$far\"", "server")
        .replace("\"$router\"", "router")
        .replace("'$(program)'", "SERVER_PID")
        .replace("\"$TEXTBOOK\"", "verbs-shim/examples/textbook.c")
}

const STALE: &str = "without what varies; on the left what it has, on the right what is printed. `WRITE_DOCS=1 \
                     cargo test -p roce --test run wrong` writes it";

/// The lines of a page without what varies: numbers in reports, and what only some runs see.
fn comparable(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut in_report, mut label) = (false, String::new());
    for line in page.lines() {
        match line {
            "```text" => in_report = true,
            "```" => in_report = false,
            _ => {}
        }
        if !in_report || !line.starts_with("  ") {
            lines.push(if in_report {
                masked(line)
            } else {
                line.to_owned()
            });
            continue;
        }
        let (head, rest) = line.split_at_checked(12).unwrap_or((line, ""));
        if !head.trim().is_empty() {
            head.trim().clone_into(&mut label);
        }
        match label.as_str() {
            "evidence" => lines.extend(of_evidence(rest)),
            // More advice comes with more evidence.
            "do" if head.trim().is_empty() => {}
            "code" => lines.push(line.to_owned()),
            _ => lines.push(format!("{label} {}", masked(rest))),
        }
    }
    lines
}

/// A line of evidence; `None` for what depends on the time, and for counters that move for other reasons,
/// too.
fn of_evidence(line: &str) -> Option<String> {
    const OTHERS: [&str; 5] = [
        "the device has dropped",
        "since the datapath started",
        "the QP has sent",
        "does not answer ARP requests",
        "got lost at this host",
    ];
    if OTHERS.iter().any(|other| line.contains(other)) {
        return None;
    }
    Some(format!("evidence {}", masked(line)))
}

/// A line without its numbers, and without the plurals that depend on them.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        masked.push_str(&rest[..at]);
        masked.push('#');
        let is_hex = rest[at..].starts_with("0x");
        let number = if is_hex { &rest[at + 2..] } else { &rest[at..] };
        let is_part =
            |c: char| c.is_ascii_digit() || c == '.' && !is_hex || is_hex && c.is_ascii_hexdigit();
        rest = number.trim_start_matches(is_part);
    }
    masked.push_str(rest);
    for plural in [
        "packets", "requests", "receives", "messages", "times", "QPs",
    ] {
        let one = plural.trim_end_matches('s');
        masked = masked.replace(plural, one);
    }
    masked.replace("no more", "# more")
}

#[test]
fn only_what_varies_is_masked() {
    let page = |number: &str, counter: &str| {
        format!(
            "## A 1\n```text\nroce: QP {number} of roce_v0 in process 17, RC failed\n  \
             why       no answer, 7 retries\n  evidence  {counter}\n            MTU of 32\n  \
             do        a\n            b\n  code      0x211\n```\n"
        )
    };
    let one = comparable(&page(
        "0x00a1f2",
        "IpOutDiscards: 8 more since the datapath started. Lost",
    ));
    assert_eq!(
        one,
        comparable(&page("0x0142", "the QP has sent 3 packets"))
    );
    assert_eq!(
        one,
        [
            "## A 1",
            "```text",
            "roce: QP # of roce_v# in process #, RC failed",
            "why no answer, # retries",
            "evidence MTU of #",
            "do a",
            "  code      0x211",
            "```"
        ]
    );
}
