//! `roce run --hunt`: small programs with a bug that only faults show, and their mended twins.

use super::programs::library;
use super::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Builds a program of the folder `c/hunt`, with its bug or without.
fn build(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("allowed");
    let program = folder.join(format!("{name}{}", options.len()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/c/hunt");
    let options = [options, &["-libverbs"]].concat();
    testkit::compile("gcc", source.join(format!("{name}.c")), &program, &options);
    program
}

/// `roce run --hunt` with the library that cargo built, in a network of its own: only processes of one
/// user share the port of an address, and other tests run as other users.
fn hunt(who: Who, options: &[&str]) -> Command {
    let mut command = who.command("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c"]);
    command.args([r#"ip link set lo up; exec "$@""#, "sh", ROCE]);
    command.args(["run", "--library"]).arg(library());
    command.arg("--hunt").args(options).arg("--");
    command
}

/// The exit code of a hunt, its report, and what it told.
fn json_of(command: &mut Command) -> (Option<i32>, Value, String) {
    let output = command.output().expect("it starts");
    let told = text(&output.stderr);
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), json, told)
}

/// A hunt of 100 runs finds the bug of a program, and none in the program without it.
fn finds_the_bug_of(name: &str, said: &str) {
    if !testkit::compiles_verbs_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // None of these programs hangs, and a busy machine may take long.
    let options = [
        "100",
        "--hunt-seed=1",
        "--hunt-limit=60s",
        "--hunt-format=json",
    ];
    let buggy = build(folder.path(), name, &[]);
    let (code, json, told) = json_of(hunt(Who::Myself, &options).arg(buggy));
    assert_eq!(code, Some(1), "{told}{json}");
    let first = &json["failures"][0];
    assert_eq!(first["exit_code"], 1, "{json}");
    let stderr = first["stderr"].as_str().expect("text");
    assert!(stderr.contains(said), "{json}");
    let mended = build(folder.path(), name, &["-DMENDED"]);
    let (code, json, told) = json_of(hunt(Who::Myself, &options).arg(mended));
    assert_eq!(
        (code, &json["failed"]),
        (Some(0), &0.into()),
        "{told}{json}"
    );
    assert_eq!(json["runs"], 100);
}

#[test]
fn an_ignored_status_is_found() {
    finds_the_bug_of("ignored_status", "counts as sent, and has not arrived");
}

#[test]
fn an_answer_that_is_counted_twice_is_found() {
    finds_the_bug_of("counted_twice", "the sum is wrong");
}

#[test]
fn a_receive_that_is_posted_late_is_found() {
    finds_the_bug_of("late_receive", "RNR retry counter exceeded");
}

#[test]
fn a_buffer_that_is_used_again_early_is_found() {
    finds_the_bug_of("early_reuse", "has the bytes of a later one");
}

/// A program that uses RDMA and survives all faults, for tests that are shell scripts.
struct Uses {
    folder: TempDir,
    rdma: PathBuf,
}

impl Uses {
    /// Reports it if the program can't be built.
    fn rdma() -> Option<Self> {
        if !testkit::compiles_verbs_or_skip() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let rdma = build(folder.path(), "early_reuse", &["-DMENDED"]);
        Some(Self { folder, rdma })
    }

    /// A hunt with a script that uses RDMA before anything else.
    fn script(&self, who: Who, options: &[&str], script: &str) -> Command {
        let mut command = hunt(who, options);
        let script = format!("ulimit -c 0\n\"$0\" || exit 99\n{script}");
        command.args(["sh", "-c", &script]).arg(&self.rdma);
        command
    }
}

/// Fails with each fault that is about late completions.
const FAILS_IF_LATE: &str = "case $ROCE_FAULTS in *late=*) echo it is late; exit 3;; esac";

#[test]
fn faults_shrink_to_the_one_that_matters_and_the_command_repeats_it() {
    let test = "faults_shrink_to_the_one_that_matters_and_the_command_repeats_it";
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let options = ["6", "--hunt-seed", "5", "--hunt-format=json"];
    for who in Who::with_namespaces(test) {
        let (code, json, told) = json_of(&mut uses.script(who, &options, FAILS_IF_LATE));
        assert_eq!(code, Some(1), "{who:?}: {told}");
        let failures = json["failures"].as_array().expect("a list");
        for failure in failures {
            assert!(
                failure["faults"]
                    .as_str()
                    .is_some_and(|it| it.contains("late="))
            );
            assert_eq!(failure["exit_code"], 3, "{json}");
            assert_eq!(failure["stdout"], "it is late\n", "{json}");
        }
        assert!((1..6).contains(&failures.len()), "{json}");
        let smallest = &json["smallest"];
        let faults = smallest["faults"].as_str().expect("text");
        let (_, when) = faults.split_once(":late=10us@").expect("the shortest time");
        assert!(when.parse::<u32>().is_ok(), "one match, not {when}");
        assert_eq!(smallest["failed"], smallest["of"], "{json}");
        assert_eq!(smallest["complete"], true, "{json}");
        let again = smallest["again"].as_str().expect("text");
        assert!(
            again.starts_with(&format!("roce run --faults '{faults}' ")),
            "{again}"
        );
        let script = format!("roce() {{ '{ROCE}' \"$@\"; }}\n{again}");
        let output = who.command("sh").args(["-c", &script]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(text(&output.stdout), "it is late\n", "{output:?}");
        let same = json_of(&mut uses.script(who, &options, FAILS_IF_LATE)).1;
        let faults = |json: &Value| -> Vec<String> {
            let failures = json["failures"].as_array().expect("a list");
            failures.iter().map(|it| it["faults"].to_string()).collect()
        };
        assert_eq!(faults(&same), faults(&json), "the same seed");
    }
}

#[test]
fn the_text_says_what_failed_and_a_signal_has_its_name() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let script = "case $ROCE_FAULTS in ?*) echo begins >&2; kill -SEGV $$;; esac";
    let options = ["2", "--hunt-seed", "5", "--hunt-with", "slow"];
    let output = uses
        .script(Who::Myself, &options, script)
        .output()
        .expect("it starts");
    let (report, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in [
        " with slow, seed 5: 2 failed\n  run 1    signal 11 (SIGSEGV)      ",
        "\nrun 1, the first that failed:\n",
        "  stderr: begins\n  again: roce run --faults '",
        "The fewest faults with which it fails, in 5 of 5 runs: ",
    ] {
        assert!(report.contains(part), "no {part:?} in {report}");
    }
    for part in [
        "seed 5; again: roce run --hunt 2 --hunt-seed 5 --hunt-with slow --library",
        "it passes without faults, in ",
        "a run of more than 10.0 s counts as hung",
        "run 1 is the first that fails: signal 11 (SIGSEGV); ",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

/// The first run with faults hangs, and so does a process that has left its group.
#[test]
fn a_hung_test_is_killed_with_all_that_it_started() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let flag = uses.folder.path().join("flag");
    let script = "case $ROCE_FAULTS in *late=0s@1,*) ;; ?*) [ -e \"$1\" ] && exit
        touch \"$1\"; setsid sleep 600 & echo $$ $!; sleep 600;; esac";
    let options = ["2", "--hunt-limit", "2s", "--hunt-format", "json"];
    let mut command = uses.script(Who::Myself, &options, script);
    let (code, json, told) = json_of(command.arg(&flag));
    assert_eq!(code, Some(1), "{told}{json}");
    assert_eq!(json["failed"], 1, "{json}");
    let failure = &json["failures"][0];
    assert_eq!(
        (&failure["run"], &failure["hung"]),
        (&1.into(), &true.into())
    );
    assert_eq!(failure["failure"], "hung, killed after 2.0 s");
    let ids = failure["stdout"].as_str().expect("text");
    assert_eq!(ids.split_whitespace().count(), 2, "{json}");
    for id in ids.split_whitespace() {
        assert!(!exists(format!("/proc/{id}")), "{id} is left");
    }
    assert_eq!(
        json["smallest"]["failed"], 0,
        "it does not hang again: {json}"
    );
}

#[test]
fn a_signal_ends_the_hunt_and_its_test() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let fifo = uses.folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let mut command = uses.script(Who::Myself, &["1"], "echo $$ > \"$1\"; exec sleep 600");
    command
        .arg(&fifo)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // The test's process, which has begun when this can be read.
    let id = fs::read_to_string(&fifo).expect("read");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(Signal::SIGTERM as i32));
    assert!(!exists(format!("/proc/{}", id.trim())), "{id} is left");
}

#[test]
fn a_test_that_fails_without_faults_is_not_hunted() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    for (format, said) in [
        (
            "text",
            "without faults: the test must pass without faults, but: exit code 7\n",
        ),
        (
            "tap",
            "Bail out! the test must pass without faults, but: exit code 7\n",
        ),
        (
            "junit",
            "<failure message=\"the test must pass without faults, but: exit code 7\">",
        ),
        (
            "json",
            "\"failure\": \"the test must pass without faults, but: exit code 7\"",
        ),
    ] {
        let script = "echo runs >> \"$1\"; exit 7";
        let runs = uses.folder.path().join(format);
        let mut command = uses.script(Who::Myself, &["5", "--hunt-format", format], script);
        let output = command.arg(&runs).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stdout).contains(said), "{output:?}");
        assert_eq!(fs::read_to_string(runs).expect("written"), "runs\n");
    }
}

#[test]
fn a_test_without_rdma_is_not_hunted() {
    let output = hunt(Who::Myself, &["5"]).arg("true").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(120), "{output:?}");
    let said = "no RDMA device was opened by true or what it started";
    assert!(text(&output.stdout).contains(said), "{output:?}");
}

#[test]
fn accepted_exit_codes_are_no_failures() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let script = "case $ROCE_FAULTS in ?*) exit 3;; esac";
    for (codes, failed) in [("4,3", 0), ("4", 3)] {
        let options = ["3", "--hunt-format=json", "--hunt-accept", codes];
        let (code, json, told) = json_of(&mut uses.script(Who::Myself, &options, script));
        assert_eq!(json["failed"], failed, "{told}{json}");
        assert_eq!(code, Some(i32::from(failed > 0)));
    }
}

#[test]
fn tap_numbers_its_lines() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let options = ["6", "--hunt-seed", "5", "--hunt-format=tap"];
    let output = uses.script(Who::Myself, &options, FAILS_IF_LATE).output();
    let tap = text(&output.expect("it starts").stdout);
    assert!(
        tap.starts_with("TAP version 14\n1..7\nok 1 - without faults\n"),
        "{tap}"
    );
    let points = tap.lines().filter_map(|line| {
        let line = line.strip_prefix("not ").unwrap_or(line);
        line.strip_prefix("ok ")?.split(' ').next()
    });
    assert!(points.eq(["1", "2", "3", "4", "5", "6", "7"]), "{tap}");
    assert_eq!(
        tap.matches("\n  ---\n").count(),
        tap.matches("\nnot ok ").count()
    );
    assert!(tap.contains("\n  message: \"exit code 3\"\n"), "{tap}");
}

/// The test prints all characters that XML can't contain.
#[test]
fn junit_is_well_formed() {
    let Some(uses) = Uses::rdma() else {
        return;
    };
    let script = "case $ROCE_FAULTS in *late=*) printf 'a<b>&\"]]>\\001\\377\\r\\n'; exit 3;; esac";
    let options = ["6", "--hunt-seed", "5", "--hunt-format=junit"];
    let output = uses.script(Who::Myself, &options, script).output();
    let xml = text(&output.expect("it starts").stdout);
    let names = elements(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let count = |name: &str| names.iter().filter(|it| *it == name).count();
    assert_eq!((count("testsuite"), count("testcase")), (1, 7), "{xml}");
    let failures = count("failure");
    assert!((1..6).contains(&failures), "{xml}");
    assert!(
        xml.contains(&format!("tests=\"7\" failures=\"{failures}\"")),
        "{xml}"
    );
    let said = "<system-out>a&lt;b&gt;&amp;&quot;]]&gt;\u{fffd}\u{fffd}&#13;\n</system-out>";
    assert_eq!(xml.matches(said).count(), failures, "{xml}");
}

/// The names of the elements of a text in XML, with as much of its rules as a report uses.
fn elements(xml: &str) -> Result<Vec<String>, String> {
    let (mut names, mut open) = (Vec::new(), Vec::new());
    let rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    for piece in rest.ok_or("no declaration")?.split('<').skip(1) {
        let (tag, content) = piece.split_once('>').ok_or(format!("open: {piece}"))?;
        let text = format!("{content} {tag}");
        let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.contains(bad) || content.contains('>') {
            return Err(format!("characters: {piece:?}"));
        }
        let entities = ["amp;", "lt;", "gt;", "quot;", "#10;", "#9;", "#13;"];
        let is_entity = |text: &str| entities.iter().any(|entity| text.starts_with(entity));
        if !text.split('&').skip(1).all(is_entity) {
            return Err(format!("entity: {piece}"));
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("end of {name}"));
            }
            continue;
        }
        let (tag, is_closed) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        if tag.matches('"').count() % 2 != 0 {
            return Err(format!("quotes: {tag}"));
        }
        let name = tag.split(' ').next().unwrap_or_default().to_owned();
        names.push(name.clone());
        if !is_closed {
            open.push(name);
        }
    }
    match open.is_empty() {
        true => Ok(names),
        false => Err(format!("still open: {open:?}")),
    }
}

#[test]
fn wrong_arguments_are_named_with_what_would_be_right() {
    for (options, said) in [
        (&["--hunt", "0"][..], &["'0'", "--hunt <N>"][..]),
        (&["--hunt", "many"], &["'many'", "--hunt <N>"]),
        (
            &["--hunt=3", "--hunt-with=network,bugs"],
            &["'bugs'", "network, late, slow, errors"],
        ),
        (&["--hunt=3", "--hunt-seed=-1"], &["'-1'", "--hunt-seed"]),
        (
            &["--hunt=3", "--hunt-limit=5"],
            &["'5'", "a number with ns, us, ms or s, such as"],
        ),
        (&["--hunt=3", "--hunt-limit=0s"], &["'0s'", "at least 1ms"]),
        (
            &["--hunt=3", "--hunt-format=html"],
            &["'html'", "text, tap, junit, json"],
        ),
        (
            &["--hunt=3", "--hunt-accept=256"],
            &["'256'", "--hunt-accept"],
        ),
        (
            &["--hunt=3", "--faults=loss=1%"],
            &["'--hunt <N>' cannot be used with '--faults <SPEC>'"],
        ),
        (
            &["--hunt=3", "--summary"],
            &["cannot be used with '--summary'"],
        ),
        (&["--hunt-seed=3"], &["not provided", "--hunt <N>"]),
        (&["--hunt-with=late"], &["not provided", "--hunt <N>"]),
    ] {
        let mut command = Who::Myself.command(ROCE);
        let output = command.arg("run").args(options).arg("true").output();
        let output = output.expect("it starts");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {told}");
        for part in said {
            assert!(told.contains(part), "{options:?}: no {part:?} in {told}");
        }
    }
    let mut command = hunt(Who::Myself, &["3"]);
    let output = command.arg("true").env("ROCE_FAULTS", "loss=1%").output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = text(&output.stderr);
    assert!(
        told.contains("ROCE_FAULTS is set") && told.contains("unset it"),
        "{told}"
    );
}
