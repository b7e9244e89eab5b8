//! The summary of `roce run`, and its treatment of a program without traffic.

use super::programs::{installed, library};
use super::*;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// `roce run` with the library that cargo built.
fn run(who: Who, options: &[&str]) -> Command {
    let mut command = who.command(ROCE);
    command.arg("run").args(options).arg("--library");
    command.arg(library()).arg("--");
    command
}

/// The exit code and the output of a program.
fn end(who: Who, options: &[&str], words: &[&str]) -> (Option<i32>, String) {
    let output = run(who, options).args(words).output().expect("it starts");
    (output.status.code(), text(&output.stderr))
}

const WRITE_BW: &str = "
    set -e
    bw() { timeout 60 ib_write_bw -d roce_lo -x 1 -F -n 100 -s 65536 \"$@\" > /dev/null; }
    bw & server=$!
    # Until it listens, at port 18515.
    until grep -q ':4853 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $server; done
    bw 127.0.0.1
    wait $server";

/// In a network namespace whose loopback is up.
fn in_a_network(who: Who, command: &Command) -> Command {
    let mut outer = who.command("unshare");
    if who == Who::Nobody || !nix::unistd::geteuid().is_root() {
        outer.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    outer.args([
        "--net",
        "sh",
        "-c",
        "ip link set lo up && exec \"$@\"",
        "sh",
    ]);
    // Without the prefix from `Who`: the outer command already runs as this user.
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .collect();
    let start = words.iter().position(|word| *word == ROCE).expect("roce");
    outer.args(&words[start..]);
    outer
}

/// Packets that take lanes are RDMA traffic as those that take sockets.
#[test]
fn the_summary_covers_a_program_and_its_children() {
    let test = "the_summary_covers_a_program_and_its_children";
    if !installed(test, &["ib_write_bw", "ip", "unshare", "timeout"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        for (lanes, shares_memory) in [("auto", true), ("off", false)] {
            let mut command = run(who, &["--summary", "--require-traffic"]);
            command.args(["sh", "-c", WRITE_BW]);
            let mut command = in_a_network(who, &command);
            let output = command.env("ROCE_LOCAL", lanes).output();
            let output = output.expect("it starts");
            let told = text(&output.stderr);
            assert!(output.status.success(), "{who:?}: {told}");
            let parts = [
                "sh: 2 processes opened devices",
                "2 QPs, 2 of them connected to a peer",
                // 100 messages of 64 KiB, and five to warm up.
                "MB sent and 6.",
            ];
            for part in parts {
                assert!(told.contains(part), "{who:?}: {told}");
            }
            let by_lane = told.contains(" in shared memory");
            assert_eq!(by_lane, shares_memory, "{who:?}: {told}");
        }
    }
}

/// A server that root starts becomes another user. Python closes all descriptors before it starts a program, and
/// so its programs find the counts only by the path.
#[test]
fn processes_of_other_users_and_namespaces_are_counted() {
    let test = "processes_of_other_users_and_namespaces_are_counted";
    let programs = [
        "ib_write_bw",
        "ip",
        "python3",
        "setpriv",
        "timeout",
        "unshare",
    ];
    if !installed(test, &programs) || !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let python = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)";
    let mut starters = vec![
        vec!["python3", "-c", python],
        vec!["unshare", "--pid", "--fork", "--mount-proc"],
    ];
    if nix::unistd::geteuid().is_root() {
        let ids = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        starters.push([&["setpriv"], &ids[..]].concat());
    }
    for starter in starters {
        let mut command = run(Who::Myself, &["--summary", "--require-traffic"]);
        command.args(&starter).args(["sh", "-c", WRITE_BW]);
        let mut command = in_a_network(Who::Myself, &command);
        let output = command.output().expect("it starts");
        let told = text(&output.stderr);
        assert!(output.status.success(), "{starter:?}: {told}");
        for part in ["2 processes opened devices", "MB sent and 6."] {
            assert!(told.contains(part), "{starter:?}: {told}");
        }
    }
}

#[test]
fn a_program_without_traffic_is_a_failure_if_traffic_is_required() {
    let test = "a_program_without_traffic_is_a_failure_if_traffic_is_required";
    let options = ["--require-traffic"];
    for who in Who::all() {
        let (code, told) = end(who, &options, &["true"]);
        assert_eq!(code, Some(120), "{who:?}: {told}");
        assert!(told.contains("it opened no RDMA device"), "{told}");
        // A program that fails keeps its exit code.
        let (code, told) = end(who, &options, &["sh", "-c", "exit 3"]);
        assert_eq!(code, Some(3), "{who:?}: {told}");
        let (code, told) = end(who, &options, &["no-such-program-anywhere"]);
        assert_eq!(code, Some(127), "{who:?}: {told}");
        if installed(test, &["ibv_devinfo"]) {
            let (code, told) = end(who, &options, &["ibv_devinfo", "-d", "roce_lo"]);
            assert_eq!(code, Some(120), "{who:?}: {told}");
            assert!(told.contains("made no QP ready"), "{told}");
        }
    }
}

/// A client that connects, sends nothing and disconnects. Its server is killed.
const CONNECT_ONLY: &str = "
    cmtime -b 127.0.0.1 > /dev/null & server=$!
    tries=0
    # Until the server listens.
    until timeout 60 cmtime -s 127.0.0.1 -c 5 > /dev/null; do
        tries=$((tries + 1))
        test $tries -lt 50 && kill -0 $server || exit 1
    done
    kill $server";

const ATOMICS: &str = "
    set -e
    bw() { timeout 60 ib_atomic_bw -d roce_lo -x 1 -F -n 100 \"$@\" > /dev/null; }
    bw & server=$!
    # Until it listens, at port 18515.
    until grep -q ':4853 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $server; done
    bw 127.0.0.1
    wait $server";

/// The messages of connection management are not the program's operations. Atomics are, although
/// they have no payload.
#[test]
fn connecting_alone_is_no_traffic_and_atomics_are() {
    let test = "connecting_alone_is_no_traffic_and_atomics_are";
    if !installed(
        test,
        &["cmtime", "ib_atomic_bw", "ip", "unshare", "timeout"],
    ) {
        return;
    }
    for who in Who::with_namespaces(test) {
        for (script, code, part) in [
            (CONNECT_ONLY, 120, "used none of them"),
            (ATOMICS, 0, "0 bytes received, in "),
        ] {
            let mut command = run(who, &["--summary", "--require-traffic"]);
            command.args(["sh", "-c", script]);
            let output = in_a_network(who, &command).output().expect("it starts");
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{who:?}: {told}");
            assert!(told.contains(part), "{who:?}: {told}");
        }
    }
}

/// A client whose server does not use the preloaded sockets, at port 7000.
const FELL_BACK: &str = r#"
    env -u LD_PRELOAD python3 -c 'import socket
s = socket.create_server(("127.0.0.1", 7000))
c, _ = s.accept()
c.sendall(c.recv(5))' & server=$!
    until grep -q ':1B58 ' /proc/net/tcp; do kill -0 $server || exit 1; done
    python3 -c 'import socket
s = socket.create_connection(("127.0.0.1", 7000))
s.sendall(b"hello")
assert s.recv(5) == b"hello"' && wait $server"#;

/// The search for a peer with RDMA is no operation of the program.
#[test]
fn a_program_whose_sockets_fell_back_to_tcp_has_no_traffic() {
    let test = "a_program_whose_sockets_fell_back_to_tcp_has_no_traffic";
    if !installed(test, &["python3", "ip", "unshare"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        let mut command = run(who, &["--require-traffic", "--sockets=loopback"]);
        command.args(["sh", "-c", FELL_BACK]);
        let output = in_a_network(who, &command).output().expect("it starts");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(120), "{who:?}: {told}");
        assert!(
            told.contains("no operation went through this stack"),
            "{told}"
        );
    }
}

/// No process of `roce run` remains then, so the program reports it.
#[test]
fn a_program_that_opens_no_device_says_so() {
    let test = "a_program_that_opens_no_device_says_so";
    const SAID: &str = "no RDMA device was opened by ";
    for who in Who::all() {
        if !installed(test, &["python3"]) {
            return;
        }
        let script = "import subprocess, sys; subprocess.run(['true']); sys.exit(3)";
        let (code, told) = end(who, &[], &["python3", "-c", script]);
        assert_eq!(code, Some(3), "{who:?}: {told}");
        assert_eq!(
            told.matches(SAID).count(),
            1,
            "once, not by children: {told}"
        );
        assert!(
            told.contains("opened by python3 or what it started"),
            "{told}"
        );
        for (options, words) in [
            (&["--quiet"][..], &["true"][..]),
            (&["--preload", "never"], &["true"]),
            // An interactive shell.
            (&[], &["sh"]),
        ] {
            let mut command = run(who, options);
            let output = command.args(words).stdin(Stdio::null()).output();
            let told = text(&output.expect("it starts").stderr);
            assert!(
                !told.contains(SAID),
                "{who:?} {options:?} {words:?}: {told}"
            );
        }
        let (_, told) = end(who, &["--summary"], &["true"]);
        assert_eq!(told.matches(SAID).count(), 1, "{told}");
        if installed(test, &["ibv_devinfo"]) {
            let opens = "ibv_devinfo -d roce_lo > /dev/null; true";
            let (code, told) = end(who, &[], &["sh", "-c", opens]);
            assert_eq!(code, Some(0), "{who:?}: {told}");
            assert!(!told.contains(SAID), "{who:?}: {told}");
        }
    }
}

/// Its options may name the device of another machine.
#[test]
fn a_program_that_misses_a_device_hears_how_devices_get_names() {
    let test = "a_program_that_misses_a_device_hears_how_devices_get_names";
    const SAID: &str = "ROCE_DEVICE_NAMES=INTERFACE=NAME";
    if !installed(test, &["ibv_devinfo"]) {
        return;
    }
    for who in Who::all() {
        for options in [&[][..], &["--summary"]] {
            let (code, told) = end(who, options, &["ibv_devinfo", "-d", "mlx5_0"]);
            assert_ne!(code, Some(0), "{who:?}: {told}");
            assert_eq!(told.matches(SAID).count(), 1, "{who:?}: {told}");
            let (_, told) = end(who, options, &["false"]);
            assert!(!told.contains(SAID), "{who:?}: {told}");
        }
    }
}

/// A program that only lists devices succeeds, so no cause is reported.
#[test]
fn a_program_that_lists_devices_has_not_failed() {
    let test = "a_program_that_lists_devices_has_not_failed";
    const SAID: &str = "no RDMA device was opened";
    for who in Who::all() {
        let mut programs = vec![vec![ROCE, "devices"], vec![ROCE, "doctor"]];
        if installed(test, &["ibv_devices"]) {
            programs.push(vec!["ibv_devices"]);
            programs.push(vec!["ibv_devinfo", "-l"]);
        }
        for words in programs {
            let (_, told) = end(who, &[], &words);
            assert!(!told.contains(SAID), "{who:?} {words:?}: {told}");
            // Whether the doctor succeeds depends on the machine.
            if words.ends_with(&["doctor"]) {
                continue;
            }
            let (_, told) = end(who, &["--summary"], &words);
            let listed = "devices were listed, and none was opened";
            assert!(told.contains(listed), "{who:?} {words:?}: {told}");
            // Listing is no traffic, either.
            if words == ["ibv_devices"] {
                let (code, told) = end(who, &["--require-traffic"], &words);
                assert_eq!(code, Some(120), "{who:?}: {told}");
                assert!(
                    told.contains("listed RDMA devices and opened none"),
                    "{told}"
                );
            }
        }
    }
}

/// A program that has reported that it is ready, and its process.
struct Ready {
    child: Child,
    program: Pid,
    lines: BufReader<ChildStdout>,
    /// The program's stdin, which it reads. `Child::wait` would close it.
    input: ChildStdin,
}

fn ready(script: &str) -> Ready {
    let mut command = run(Who::Myself, &["--summary", "--quiet"]);
    command.args(["sh", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let input = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("read");
    let program = Pid::from_raw(line.trim().parse().expect("its number"));
    Ready {
        child,
        program,
        lines,
        input,
    }
}

fn id(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

#[test]
fn a_parent_forwards_signals_and_ends_as_its_program() {
    let script = "trap 'exit 42' TERM; echo $$; read line; exit 1";
    let mut it = ready(script);
    assert_ne!(it.program, id(&it.child), "there is a parent");
    kill(id(&it.child), Signal::SIGTERM).expect("it runs");
    assert_eq!(it.child.wait().expect("it ends").code(), Some(42));
    drop(it.input);
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGUSR1] {
        let mut it = ready("echo $$; read line; exit 1");
        kill(it.program, signal).expect("it runs");
        let ended = it.child.wait().expect("it ends");
        assert_eq!(ended.signal(), Some(signal as i32));
        drop(it.input);
    }
}

#[test]
fn a_parent_that_is_killed_takes_its_program_along() {
    let mut it = ready("echo $$; exec 0< /dev/null; exec sleep 60");
    it.child.kill().expect("it runs");
    it.child.wait().expect("it ends");
    // The pipe ends with the last process that can write to it.
    let mut rest = String::new();
    it.lines.read_line(&mut rest).expect("read");
    assert_eq!(rest, "", "process {}", it.program);
}

#[test]
fn a_parent_stops_and_continues_with_its_program() {
    // A signal interrupts `read`.
    let script = "trap 'echo continued' CONT; echo $$; while :; do read line && exit 7; done";
    let mut it = ready(script);
    let parent = id(&it.child);
    for to in [parent, it.program] {
        kill(to, Signal::SIGSTOP).expect("it runs");
        let stopped = waitpid(parent, Some(WaitPidFlag::WUNTRACED));
        assert!(
            matches!(stopped, Ok(WaitStatus::Stopped(_, Signal::SIGSTOP))),
            "{stopped:?}"
        );
        kill(parent, Signal::SIGCONT).expect("it is there");
        let mut line = String::new();
        it.lines.read_line(&mut line).expect("read");
        assert_eq!(line, "continued\n");
    }
    it.input.write_all(b"end\n").expect("it reads");
    assert_eq!(it.child.wait().expect("it ends").code(), Some(7));
}

/// Open MPI silently falls back to shared memory.
#[test]
fn mpi_over_shared_memory_is_no_traffic() {
    let test = "mpi_over_shared_memory_is_no_traffic";
    let programs = [
        "mpicc.openmpi",
        "mpirun.openmpi",
        "ip",
        "unshare",
        "timeout",
    ];
    if !installed(test, &programs) || !Who::with_namespaces(test).contains(&Who::Myself) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ring = folder.path().join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/c/ring.c");
    let mut compiler = Command::new("mpicc.openmpi");
    let built = compiler
        .arg("-O1")
        .arg("-o")
        .arg(&ring)
        .arg(source)
        .output();
    said(&built.expect("it starts"));
    let mpirun = |transport: &[&str]| {
        let mut command = run(Who::Myself, &["--summary", "--require-traffic"]);
        command.args(["timeout", "100", "mpirun.openmpi"]);
        command.args(["--oversubscribe", "-n", "2"]);
        command.args(transport).arg(&ring);
        let mut command = in_a_network(Who::Myself, &command);
        for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(variable, "1");
        }
        command.output().expect("it starts")
    };
    let shared = mpirun(&["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
    let told = text(&shared.stderr);
    assert_eq!(shared.status.code(), Some(120), "{told}");
    assert_eq!(text(&shared.stdout), "all right\n", "{told}");
    assert!(
        told.contains("no operation went through this stack"),
        "{told}"
    );
    let rdma = mpirun(&["--mca", "pml", "ucx", "-x", "UCX_TLS=rc,self"]);
    let told = text(&rdma.stderr);
    assert_eq!(rdma.status.code(), Some(0), "{told}");
    assert_eq!(text(&rdma.stdout), "all right\n", "{told}");
    // 20 messages of 1 MiB.
    assert!(told.contains("MB sent and 2"), "{told}");
}
