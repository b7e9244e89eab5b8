//! The XML of JUnit, as CI systems read it.

use super::{Report, RunReport, sentences};
use std::fmt::Write as _;
use std::time::Duration;

pub(super) fn of(report: &Report) -> String {
    let tests = report.runs.len() + 1;
    let failures = report.failures() + usize::from(report.undisturbed.failure.is_some());
    let runs = report.runs.iter().map(|run| run.time);
    let total: Duration = runs.sum::<Duration>() + report.undisturbed.time;
    let counts = format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"{:.3}\"",
        total.as_secs_f64()
    );
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let _ = writeln!(text, "<testsuites {counts}>");
    let name = attribute(&format!("roce run --hunt: {}", report.test));
    let _ = writeln!(text, "  <testsuite name=\"{name}\" {counts}>");
    let _ = writeln!(text, "    <properties>");
    for (name, value) in [
        ("seed", report.seed.to_string()),
        ("with", report.with.join(",")),
        ("limit_seconds", report.limit.as_secs_f64().to_string()),
        ("again", report.again.clone()),
    ] {
        let value = attribute(&value);
        let _ = writeln!(text, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    let _ = writeln!(text, "    </properties>");
    let class = attribute(&report.test);
    case(&mut text, &class, "without faults", &report.undisturbed, "");
    let first = report.failed().map(|(number, ..)| number).next();
    for (run, number) in report.runs.iter().zip(1..) {
        let smallest = report.smallest.as_ref().filter(|_| first == Some(number));
        let more = smallest.map_or(String::new(), |smallest| {
            format!("{}\nagain: {}\n", sentences(smallest), smallest.again)
        });
        // The name is the same in each hunt, so that CI systems see the history of a run.
        case(&mut text, &class, &format!("run {number}"), run, &more);
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// A run. `class` is escaped already.
fn case(text: &mut String, class: &str, name: &str, run: &RunReport, more: &str) {
    let seconds = run.time.as_secs_f64();
    let begin = format!("<testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"");
    let Some(failure) = &run.failure else {
        let _ = writeln!(text, "    {begin}/>");
        return;
    };
    let _ = writeln!(text, "    {begin}>");
    let what = attribute(&failure.what);
    let again = format!("faults: {}\nagain: {}\n{more}", run.faults, failure.again);
    let _ = writeln!(
        text,
        "      <failure message=\"{what}\">{}</failure>",
        content(&again)
    );
    for (name, printed) in [
        ("system-out", &failure.stdout),
        ("system-err", &failure.stderr),
    ] {
        let _ = writeln!(text, "      <{name}>{}</{name}>", content(printed));
    }
    let _ = writeln!(text, "    </testcase>");
}

/// A text as the value of an attribute, where line breaks would be read as spaces.
fn attribute(text: &str) -> String {
    let content = content(text).replace('\n', "&#10;");
    content.replace('\t', "&#9;")
}

/// A text as the content of an element.
pub(super) fn content(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\r' => xml.push_str("&#13;"),
            '\n' | '\t' => xml.push(character),
            // XML 1.0 can't express these.
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => xml.push('\u{fffd}'),
            other => xml.push(other),
        }
    }
    xml
}
