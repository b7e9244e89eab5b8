//! The program's process: its ID, arguments, signals and exit code.

use super::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn the_exit_code_is_the_programs() {
    let library = Library::new();
    for who in Who::all() {
        for code in [0, 1, 7, 125, 255] {
            let output = library.shell(who, &["--quiet"], &format!("exit {code}"));
            assert_eq!(output.status.code(), Some(code), "{who:?}");
        }
        let killed = library.shell(who, &["--quiet"], "kill -9 $$");
        assert_eq!(killed.status.signal(), Some(9), "{who:?}");
        let aborted = library.shell(who, &["--quiet"], "ulimit -c 0; kill -ABRT $$");
        assert_eq!(aborted.status.signal(), Some(6), "{who:?}");
    }
}

/// No process remains between the caller and the program, so they interact as they do without `roce
/// run`.
#[test]
fn the_program_is_this_process() {
    let library = Library::new();
    for who in Who::all() {
        let mut command = library.run(who);
        command.args(["--quiet", "--", "sh", "-c"]);
        command.arg("trap 'exit 42' TERM; echo $$ $PPID; read line");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("read");
        let own = std::process::id();
        assert_eq!(line, format!("{} {own}\n", child.id()), "{who:?}");
        let cmdline = fs::read(format!("/proc/{}/cmdline", child.id())).expect("it runs");
        assert!(cmdline.starts_with(b"sh\0-c\0"), "{}", text(&cmdline));
        let id = i32::try_from(child.id()).expect("a number");
        kill(Pid::from_raw(id), Signal::SIGTERM).expect("it runs");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(42), "{who:?}");
    }
}

#[test]
fn arguments_and_environment_arrive_as_they_were() {
    let library = Library::new();
    let odd = OsString::from_vec(b"\xff $HOME '\"\n*".to_vec());
    let mut command = library.run(Who::Myself);
    command.args(["--quiet", "--faults", "loss=1%", "sh", "-c"]);
    command.arg("printf '%s|' \"$0\" \"$@\"; printf '%s' \"$ROCE_FAULTS $ODD\"");
    command
        .args(["--library", "", "-x", "--", "--help"])
        .arg(&odd);
    let output = command.env("ODD", &odd).output().expect("it starts");
    let mut expected = b"--library||-x|--|--help|".to_vec();
    expected.extend(odd.as_encoded_bytes());
    expected.extend(b"|loss=1% ");
    expected.extend(odd.as_encoded_bytes());
    assert_eq!(text(&output.stdout), text(&expected));
    assert_eq!(output.stdout, expected);
}

#[test]
fn options_become_environment_variables() {
    let library = Library::new();
    let options = [
        "--datapath=udp",
        "--pcap=/tmp/a b-%p.pcapng",
        "--faults=loss=1%,seed=7",
    ];
    let script = "echo \"$ROCE_DATAPATH|$ROCE_PCAP|$ROCE_FAULTS|$ROCE_XDP_QUEUES\"";
    let mut command = library.run(Who::Myself);
    command
        .args(options)
        .args(["--namespace=none", "-q", "env"]);
    // With a space in its path the library can't be loaded by itself.
    let alone = command.output().expect("it starts");
    assert_eq!(alone.status.code(), Some(125), "{alone:?}");
    assert!(
        text(&alone.stderr).contains("roce env --write"),
        "{alone:?}"
    );
    for who in Who::with_namespaces("options_become_environment_variables") {
        let output = library
            .run(who)
            .args(options)
            .args(["sh", "-c", script])
            // The user's setting is not overridden, unless another one is given.
            .envs([("ROCE_XDP_QUEUES", "2"), ("ROCE_DATAPATH", "auto")])
            .output()
            .expect("it starts");
        assert_eq!(said(&output), "udp|/tmp/a b-%p.pcapng|loss=1%,seed=7|2\n");
        let told = text(&output.stderr);
        assert!(told.contains("faults are on: loss=1%,seed=7"), "{told}");
    }
}

#[test]
fn the_search_path_keeps_what_it_had() {
    let library = Library::new();
    for who in Who::with_namespaces("the_search_path_keeps_what_it_had") {
        let output = library
            .run(who)
            .args(["sh", "-c", "echo $LD_LIBRARY_PATH; ls $(readlink -f /sys/class/roce/lib/libibverbs.so.1 | tr ' ' '?')"])
            .env("LD_LIBRARY_PATH", "/x:/y z")
            .output()
            .expect("it starts");
        let library = library.folder.join("libroce_verbs_shim.so");
        let expected = format!("/sys/class/roce/lib:/x:/y z\n{}\n", library.display());
        assert_eq!(said(&output), expected, "{who:?}");
    }
}
