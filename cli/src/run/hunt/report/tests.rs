use super::super::runner::Outcome;
use super::*;
use nix::sys::signal::Signal;

fn failed(what: &str, outcome: Outcome, faults: &str) -> RunReport {
    RunReport {
        outcome,
        time: Duration::from_millis(20),
        faults: faults.to_owned(),
        failure: Some(Failure {
            what: what.to_owned(),
            again: format!("roce run --faults '{faults}' -- ./t '<&>'"),
            stdout: String::new(),
            stderr: "a \"b\" <c> & \x1b[2J\nlast # line\n".to_owned(),
        }),
    }
}

fn passed(faults: &str) -> RunReport {
    RunReport {
        outcome: Outcome::Code(0),
        time: Duration::from_millis(10),
        faults: faults.to_owned(),
        failure: None,
    }
}

fn report() -> Report {
    Report {
        test: "./t '<&>'".to_owned(),
        seed: 7,
        with: vec!["network".to_owned(), "late".to_owned()],
        again: "roce run --hunt 3 --hunt-seed 7 -- ./t '<&>'".to_owned(),
        undisturbed: passed(""),
        limit: Duration::from_secs(10),
        runs: vec![
            passed("loss=1%,seed=3"),
            failed("exit code 3", Outcome::Code(3), "recv:late=20ms@3..5"),
            failed(
                "signal 11 (SIGSEGV)",
                Outcome::Signal(Signal::SIGSEGV),
                "dup=1%,seed=4",
            ),
        ],
        smallest: Some(Smallest {
            faults: "recv:late=5ms@3".to_owned(),
            again: "roce run --faults 'recv:late=5ms@3' -- ./t '<&>'".to_owned(),
            failed: 4,
            of: 5,
            runs: 23,
            complete: true,
        }),
    }
}

/// The report on a test that fails by itself.
fn failing_alone() -> Report {
    Report {
        undisturbed: failed("it fails anyway", Outcome::Code(1), ""),
        runs: Vec::new(),
        smallest: None,
        ..report()
    }
}

#[test]
fn the_text_shows_which_runs_failed_and_how_to_repeat_them() {
    let expected = "\
3 runs of ./t '<&>' with network, late, seed 7: 2 failed
  run 2    exit code 3              recv:late=20ms@3..5
  run 3    signal 11 (SIGSEGV)      dup=1%,seed=4

run 2, the first that failed:
  stderr: a \"b\" <c> & \\u{1b}[2J
  stderr: last # line
  again: roce run --faults 'recv:late=20ms@3..5' -- ./t '<&>'

The fewest faults with which it fails, in 4 of 5 runs: recv:late=5ms@3 (found in 23 runs)
  again: roce run --faults 'recv:late=5ms@3' -- ./t '<&>'
";
    assert_eq!(text::of(&report()), expected);
    let alone = text::of(&failing_alone());
    assert!(
        alone.starts_with("without faults: it fails anyway\n  stderr: a "),
        "{alone}"
    );
}

#[test]
fn tap_has_a_line_for_each_run() {
    let expected = "\
TAP version 14
1..4
ok 1 - without faults
ok 2 - run 1: loss=1%,seed=3
not ok 3 - run 2: recv:late=20ms@3..5
  ---
  message: \"exit code 3\"
  again: \"roce run --faults 'recv:late=20ms@3..5' -- ./t '<&>'\"
  stdout: \"\"
  stderr: \"a \\\"b\\\" <c> & \\u001b[2J\\nlast # line\"
  seconds: 0.020
  ...
# The fewest faults with which it fails, in 4 of 5 runs: recv:late=5ms@3 (found in 23 runs)
# again: roce run --faults 'recv:late=5ms@3' -- ./t '<&>'
not ok 4 - run 3: dup=1%,seed=4
";
    let tap = tap::of(&report());
    assert!(tap.starts_with(expected), "{tap}");
    let alone = tap::of(&failing_alone());
    assert!(alone.starts_with("TAP version 14\n1..1\nnot ok 1 - without faults\n"));
    assert!(alone.ends_with("\nBail out! it fails anyway\n"), "{alone}");
}

#[test]
fn junit_escapes_what_tests_print() {
    let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"0\" time=\"0.060\">
  <testsuite name=\"roce run --hunt: ./t '&lt;&amp;&gt;'\" tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"0\" time=\"0.060\">
    <properties>
      <property name=\"seed\" value=\"7\"/>
      <property name=\"with\" value=\"network,late\"/>
      <property name=\"limit_seconds\" value=\"10\"/>
      <property name=\"again\" value=\"roce run --hunt 3 --hunt-seed 7 -- ./t '&lt;&amp;&gt;'\"/>
    </properties>
    <testcase classname=\"./t '&lt;&amp;&gt;'\" name=\"without faults\" time=\"0.010\"/>
    <testcase classname=\"./t '&lt;&amp;&gt;'\" name=\"run 1\" time=\"0.010\"/>
    <testcase classname=\"./t '&lt;&amp;&gt;'\" name=\"run 2\" time=\"0.020\">
      <failure message=\"exit code 3\">faults: recv:late=20ms@3..5
again: roce run --faults 'recv:late=20ms@3..5' -- ./t '&lt;&amp;&gt;'
The fewest faults with which it fails, in 4 of 5 runs: recv:late=5ms@3 (found in 23 runs)
again: roce run --faults 'recv:late=5ms@3' -- ./t '&lt;&amp;&gt;'
</failure>
      <system-out></system-out>
      <system-err>a &quot;b&quot; &lt;c&gt; &amp; \u{fffd}[2J
last # line
</system-err>
    </testcase>
";
    let xml = junit::of(&report());
    assert!(xml.starts_with(expected), "{xml}");
    let alone = junit::of(&failing_alone());
    assert!(
        alone.contains("<testsuites tests=\"1\" failures=\"1\""),
        "{alone}"
    );
}

#[test]
fn line_breaks_survive_in_attributes() {
    let mut report = report();
    report.test = "sh -c 'a\n\tb'".to_owned();
    let xml = junit::of(&report);
    assert!(
        xml.contains("classname=\"sh -c 'a&#10;&#9;b'\" name=\"run 1\""),
        "{xml}"
    );
    let tap = tap::of(&Report {
        smallest: report.smallest.clone().map(|smallest| Smallest {
            again: "roce run -- sh -c 'a\nok 9'".to_owned(),
            ..smallest
        }),
        ..report
    });
    assert!(!tap.contains("\nok 9"), "{tap}");
}

#[test]
fn json_has_the_facts_as_values() {
    let value = |report: &Report| -> serde_json::Value {
        let text = json::of(report).expect("it can be written");
        serde_json::from_str(&text).expect("JSON")
    };
    let json = value(&report());
    assert_eq!(json["failed"], 2);
    assert_eq!(json["undisturbed"]["failure"], serde_json::Value::Null);
    assert_eq!(json["failures"][0]["run"], 2);
    assert_eq!(json["failures"][0]["exit_code"], 3);
    assert_eq!(json["failures"][1]["signal"], 11);
    assert_eq!(json["failures"][1]["hung"], false);
    assert_eq!(json["smallest"]["faults"], "recv:late=5ms@3");
    let alone = value(&failing_alone());
    assert_eq!(alone["undisturbed"]["failure"], "it fails anyway");
}

#[test]
fn the_result_of_shrinking_is_honest() {
    let of = |faults: &str, failed, complete| {
        sentences(&Smallest {
            faults: faults.to_owned(),
            again: String::new(),
            failed,
            of: 5,
            runs: 9,
            complete,
        })
    };
    assert!(of("", 2, true).contains("fails without faults now and then (2 of 5 runs"));
    assert!(of("x", 0, true).contains("did not fail again: 5 runs with x passed"));
    assert!(of("x", 1, false).contains("after which the time for shrinking was up"));
}
