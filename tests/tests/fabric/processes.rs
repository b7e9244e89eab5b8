//! The processes of a cluster: signals, terminals, and who may ask.

use crate::running::{User, can_or_skip, is_root_or_skip, run, with_roce};
use roce_tests::programs::{is_installed_or_skip, roce};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster whose program has said "ready". The script limits its time itself, and not by `timeout`: that
/// command exits if a signal arrives before it knows the ID of its child, which may have said so already.
/// It is one of bash, since dash 0.5.12 misses signals that arrive when it begins to wait.
fn ready(script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut cluster = with_roce(&mut Command::new(roce()))
        .args(["fabric", "--", "bash", "-euc", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("roce starts");
    let mut output = BufReader::new(cluster.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (cluster, output)
}

fn kill(process: &Child, signal: libc::c_int) {
    // SAFETY: it has not been waited for.
    assert_eq!(unsafe { libc::kill(process.id().cast_signed(), signal) }, 0);
}

/// Waits until a process has this state, the letter of proc(5).
fn wait_for_state(process: &Child, wanted: char) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it lives");
        let state = stat.rsplit(") ").next().expect("a state").chars().next();
        if state == Some(wanted) {
            return;
        }
        assert!(Instant::now() < end, "{stat}");
        std::thread::yield_now();
    }
}

#[test]
fn real_time_signals_end_commands_and_programs() {
    let script = "
        $ROCE fabric ssh h2 'kill -40 $$' || echo code $?
        $ROCE fabric ssh h2 '(sh -c \"kill -41 \\$\\$\" &); echo orphaned'
        kill -42 $$";
    let Some(ran) = run(User::Ordinary, &[], script) else {
        return;
    };
    ran.ends_with(128 + 42)
        .says("code 168\n")
        .says("orphaned\n");
}

/// As with ssh.
#[test]
fn what_a_command_leaves_in_the_background_stays() {
    if !is_installed_or_skip("ps") {
        return;
    }
    let script = "
        $ROCE fabric ssh h2 'tail -f /dev/null > /dev/null 2>&1 & echo begun'
        for n in 1 2 3 4 5 6 7 8 9; do $ROCE fabric ssh h2 true; done
        echo left: $($ROCE fabric ssh h2 'ps -o stat= -C tail')";
    // It sleeps, or has just woken up.
    let script = &format!("{script} | tr R S");
    let Some(ran) = run(User::Ordinary, &[], script) else {
        return;
    };
    ran.ends_with(0).says("begun\n").says("left: S");
}

/// The terminal is that of the program that asks, so reading from it must not stop the command.
#[test]
fn a_command_reads_from_a_terminal() {
    if !is_installed_or_skip("script") || !can_or_skip(User::Own) {
        return;
    }
    let line = "exec timeout 60 \"$ROCE\" fabric -- \"$ROCE\" fabric ssh h2 \
                'read line; echo \"got $line\"'";
    let mut terminal = with_roce(&mut Command::new("script"))
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script starts");
    let mut input = terminal.stdin.take().expect("piped");
    input.write_all(b"hello\n").expect("it reads");
    let mut output = terminal.stdout.take().expect("piped");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("text");
    let ended = terminal.wait().expect("it ends");
    assert!(
        ended.success() && text.contains("got hello"),
        "{ended}: {text}"
    );
}

#[test]
fn signals_to_the_command_reach_its_program() {
    if !can_or_skip(User::Own) {
        return;
    }
    for (signal, name) in [
        (libc::SIGTERM, "TERM"),
        (libc::SIGINT, "INT"),
        (libc::SIGHUP, "HUP"),
    ] {
        let script = format!(
            "trap 'echo trapped; kill $! || :; exit 9' {name}
            sleep 100 & echo ready; wait"
        );
        let (mut cluster, mut output) = ready(&script);
        kill(&cluster, signal);
        let mut text = String::new();
        output.read_to_string(&mut text).expect("text");
        assert_eq!(cluster.wait().expect("it ends").code(), Some(9), "{name}");
        assert_eq!(text, "trapped\n", "{name}");
    }
}

/// As by Ctrl-Z, so that the user's shell goes on.
#[test]
fn the_command_stops_and_goes_on() {
    if !can_or_skip(User::Own) {
        return;
    }
    let (mut cluster, _output) = ready("echo ready; exec sleep 100");
    kill(&cluster, libc::SIGTSTP);
    wait_for_state(&cluster, 'T');
    kill(&cluster, libc::SIGCONT);
    kill(&cluster, libc::SIGTERM);
    let ended = cluster.wait().expect("it ends");
    assert_eq!(ended.code(), Some(128 + libc::SIGTERM));
}

/// Programs that connect and ask for nothing, until the cluster has no descriptor left.
#[test]
fn a_host_without_descriptors_takes_commands_again() {
    if !is_installed_or_skip("python3") || !can_or_skip(User::Own) {
        return;
    }
    let crowd = "
import os, socket, subprocess
def connected():
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.connect('\\0roce-fabric')
    return asking
crowd = [connected() for _ in range(30)]
# Each of the eight other sockets at which it waits for programs has reserved one.
while len(os.listdir('/proc/1/fd')) + 8 < 40:
    pass
del crowd
# It needs a moment to notice that they are gone.
while subprocess.run([os.environ['ROCE'], 'fabric', 'ssh', 'h2', 'echo taken']).returncode:
    pass";
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=40:40").arg(roce());
    let output = with_roce(&mut limited)
        .args(["fabric", "--hosts", "8"])
        .args(["--", "timeout", "60", "python3", "-c", crowd])
        .output();
    let output = output.expect("prlimit runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text == "taken\n", "{output:?}");
}

/// Somebody has given a socket the name by which programs on a host find their cluster, and gets
/// nothing of a user's who asks on the machine itself.
#[test]
fn the_socket_of_another_user_gets_no_request() {
    if !is_root_or_skip() || !is_installed_or_skip("python3") || !can_or_skip(User::Own) {
        return;
    }
    let squat = "
import os, socket, subprocess, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setuid(65533)
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    taken.bind('\\0roce-fabric')
    taken.listen()
    os.write(write, b'.')
    asking, _ = taken.accept()
    print('received', len(asking.recv(1000)), flush=True)
    os._exit(0)
os.read(read, 1)
asked = subprocess.run([sys.argv[1], 'fabric', 'top', '--once'], stderr=subprocess.PIPE)
os.wait()
print(asked.stderr.decode())
sys.exit(asked.returncode)";
    // A network namespace, in which no other test has given a socket this name.
    let output = with_roce(&mut Command::new("unshare"))
        .args(["--net", "python3", "-c", squat])
        .arg(roce())
        .output();
    let output = output.expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text.starts_with("received 0\n"), "{text}");
    assert!(text.contains("there is no fabric here"), "{text}");
}

/// Another user has given sockets the names of fabrics, and lets no one connect.
#[test]
fn sockets_that_accept_nothing_keep_no_one_waiting() {
    if !is_root_or_skip() || !is_installed_or_skip("python3") || !can_or_skip(User::Own) {
        return;
    }
    let squat = "
import os, socket, subprocess, sys
read, write = os.pipe()
squatter = os.fork()
if squatter == 0:
    os.setuid(65533)
    kept = []
    for name in '\\0roce-fabric', '\\0roce-fabric-7':
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        taken.bind(name)
        taken.listen(0)
        kept.append(taken)
        while True:
            filling = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            filling.setblocking(False)
            try:
                filling.connect(name)
            except BlockingIOError:
                break
            kept.append(filling)
    os.write(write, b'.')
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).recv(1)
os.read(read, 1)
ask = ['timeout', '60', sys.argv[1], 'fabric']
for words in [['top', '--once'], ['do', 'h1', 'down'], ['top', '--once', '--fabric', '7']]:
    asked = subprocess.run(ask + words, stderr=subprocess.PIPE)
    print(asked.returncode, asked.stderr.decode(), flush=True)
os.kill(squatter, 9)";
    let output = with_roce(&mut Command::new("unshare"))
        .args(["--net", "python3", "-c", squat])
        .arg(roce())
        .output();
    let output = output.expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let refused = text.matches("125 roce").count();
    assert_eq!(refused, 3, "{output:?}");
    assert_eq!(text.matches("there is no fabric here").count(), 2, "{text}");
    assert!(text.contains("reach the fabric 7"), "{text}");
}

/// A user namespace shows the ID 65534 for all users that it does not map. The user with this ID has
/// another one in a cluster, so that it can be told from others.
#[test]
fn a_cluster_of_nobody_takes_requests_of_nobody() {
    if !is_root_or_skip() {
        return;
    }
    let script = "id -u; $ROCE fabric ssh h2 hostname";
    let Some(ran) = run(User::Ordinary, &[], script) else {
        return;
    };
    ran.ends_with(0).says("65533\nh2\n");
    assert!(
        !ran.text.contains("no requests from outside"),
        "{}",
        ran.text
    );
}
