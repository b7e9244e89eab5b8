//! Nothing of a cluster is left, however it ends.

use crate::running::{User, can_or_skip, command};
use roce_tests::random;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: u64 = 50;

/// Set in all processes of a cluster.
const MARKER: &str = "FABRIC_OF_THE_TEST";

/// The processes that have the marker of this test in their environment, with their namespaces.
fn processes(marker: &str) -> Vec<PathBuf> {
    let wanted = format!("{MARKER}={marker}\0");
    let folders = fs::read_dir("/proc").expect("/proc").flatten();
    let is_ours = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        let wanted = wanted.as_bytes();
        environment
            .windows(wanted.len())
            .any(|window| window == wanted)
    };
    folders
        .map(|folder| folder.path())
        .filter(is_ours)
        .collect()
}

/// What a cluster could leave: mounts, interfaces, and files where programs put some.
fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    // The first two fields are numbers of the mounts.
    let mount = |line: &str| {
        line.splitn(3, ' ')
            .nth(2)
            .map(|rest| format!("mount {rest}"))
    };
    found.extend(mounts.lines().filter_map(mount));
    for folder in ["/sys/class/net", "/dev/shm", "/run/netns"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    found
}

/// Random numbers, from bytes.
struct Random(std::vec::IntoIter<u8>);

impl Random {
    /// Enough for all rounds.
    fn drawn() -> Self {
        Self(random::bytes(ROUNDS as usize * 4 * 4).into_iter())
    }

    fn below(&mut self, limit: u64) -> u64 {
        let number = self
            .0
            .by_ref()
            .take(4)
            .fold(0, |number, byte| number << 8 | u64::from(byte));
        number % limit
    }
}

fn kill(pid: u32, signal: libc::c_int) {
    // SAFETY: a process of this test, or none.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// The processes of which this is the parent.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Ends a cluster that may just be coming up, or be at work.
fn abort(random: &mut Random, cluster: &mut Child) {
    if random.below(2) == 0 {
        // At work: it has said so.
        let output = cluster.stdout.take().expect("piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
    } else {
        // Somewhere on the way.
        let end = Instant::now() + Duration::from_micros(random.below(60_000));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
    let launcher = cluster.id();
    let victim = match random.below(3) {
        0 => children(launcher).first().copied().unwrap_or(launcher),
        _ => launcher,
    };
    let signals = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT];
    let signal = signals[random.below(3) as usize];
    kill(victim, signal);
    // The first process of a cluster ignores other signals. Its program may not have begun.
    if signal != libc::SIGKILL {
        kill(launcher, libc::SIGKILL);
    }
    cluster.wait().expect("it ends");
}

#[test]
fn nothing_remains_after_fifty_aborts() {
    if !can_or_skip(User::Own) {
        return;
    }
    let mut random = Random::drawn();
    let before = traces();
    for round in 0..ROUNDS {
        let marker = format!("{}-{round}", std::process::id());
        let script = "
            $ROCE fabric ssh h2 'setsid tail -f /dev/null & echo ready; exec tail -f /dev/null' &
            $ROCE fabric ssh h3 'exec tail -f /dev/null' & wait";
        let mut cluster = command(User::Own, &["--hosts", "3"], script)
            .env(MARKER, &marker)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("roce starts");
        abort(&mut random, &mut cluster);
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let left = processes(&marker);
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "round {round}: {left:?} are left");
            std::thread::yield_now();
        }
        assert_eq!(traces(), before, "round {round}");
    }
}
