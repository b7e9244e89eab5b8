//! Scripts of third-party programs that run on this stack, in a network of their own.
//!
//! A script runs under `roce run`, in a new network and process namespace: as root, or as an
//! ordinary user in a user namespace in which it has no rights. The kernel's packet filter counts
//! each RoCE packet there, and `roce run --require-traffic` checks what this stack moved, so a
//! program that falls back to shared memory or TCP is detected, whatever it prints. Packets that take this
//! stack's own shared memory pass no filter; the summary of `roce run` counts them. With `ROCE_LOCAL=off`, all
//! packets pass the filter.

use crate::programs;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs in the new namespaces with all rights there: network, counter, `roce run`.
const STAGE: &str = include_str!("stage.sh");

/// The environment variable that selects how scripts see their devices: `container`, or unset.
pub const WAY: &str = "ROCE_PROGRAMS_WAY";

/// Functions for scripts.
const LIBRARY: &str = include_str!("library.sh");

/// The loopback address of servers, on the device `roce_lo`.
pub const SERVER: &str = "10.9.9.1";

/// The exit code of `roce run --require-traffic` when a program succeeds and moves no data.
const NO_TRAFFIC: i32 = 120;

/// A script and its settings. Both of its ends run on one host, on which `roce_lo` has
/// [`SERVER`] and 10.9.9.2, and `roce_near`, one end of a cable, 10.9.8.1.
#[derive(Debug)]
pub struct Scene {
    script: &'static str,
    environment: Vec<(&'static str, OsString)>,
    seconds: u32,
    moves_data: bool,
    sockets: &'static str,
}

/// The result of a script.
#[derive(Debug)]
pub struct Played {
    /// The output of its programs, on stdout and stderr.
    pub output: String,
    /// Bytes of IP packets to RoCE's port, counted by the kernel.
    pub roce_bytes: u64,
    /// Bytes of payload that were sent, according to the summary: three digits of it. Bytes of headers, if there
    /// was no payload.
    pub sent_bytes: u64,
}

impl Scene {
    /// A script for bash, which begins with `set -euo pipefail` and has the functions of
    /// `library.sh`. It is killed after 100 seconds.
    pub fn of(script: &'static str) -> Self {
        Self {
            script,
            environment: Vec::new(),
            seconds: 100,
            moves_data: true,
            sockets: "",
        }
    }

    /// Sets an environment variable of the script.
    pub fn with(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    /// Sets its timeout instead of 100 seconds.
    pub fn within(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    /// Expects that this stack moves no data, and that `roce run --require-traffic` reports it.
    pub fn without_traffic(mut self) -> Self {
        self.moves_data = false;
        self
    }

    /// Puts the TCP sockets of its programs on RDMA, those on loopback, too.
    pub fn with_sockets(mut self) -> Self {
        self.sockets = "--sockets=loopback";
        self
    }

    /// Runs it in an empty folder. Returns `None`, after a line on stderr with the reason, if the
    /// machine lacks one of `programs` or namespaces.
    ///
    /// # Panics
    /// If the script fails, or moves no data although [`without_traffic`](Self::without_traffic)
    /// was not called; if the machine lacks something and the environment variable `ROCE_LAB` is
    /// `require`.
    pub fn play_or_skip(self, programs: &[&str]) -> Option<Played> {
        let own = [
            "bash", "cc", "ip", "nft", "setpriv", "ss", "timeout", "unshare",
        ];
        for program in own.iter().chain(programs) {
            // nft and ip are in folders that an ordinary user's PATH lacks.
            if !testkit::is_installed_or_skip(program) {
                return None;
            }
        }
        if let Err(reason) = namespaces() {
            testkit::skip("network namespaces", &reason);
            return None;
        }
        Some(self.play())
    }

    fn play(self) -> Played {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let script = format!("set -euo pipefail\n{LIBRARY}\n{}", self.script);
        let way = Way::asked_for();
        let output = stage()
            .args(["bash", "-c", STAGE])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .env("PATH", programs::search_path())
            .env("ROCE", programs::roce())
            .env("LIBRARY", library())
            .env("CONFINE", way.confine(folder.path()))
            .env("SECONDS_AT_MOST", self.seconds.to_string())
            .env("SCRIPT", script)
            .env("SOCKETS", self.sockets)
            .envs(self.environment)
            .stdin(Stdio::null())
            .output()
            .expect("unshare starts");
        let mut told = String::from_utf8_lossy(&output.stdout).into_owned();
        told.push_str(&String::from_utf8_lossy(&output.stderr));
        let expected = if self.moves_data { 0 } else { NO_TRAFFIC };
        assert_eq!(
            output.status.code(),
            Some(expected),
            "the script's exit code (124: out of time, {NO_TRAFFIC}: no traffic):\n{told}"
        );
        assert!(
            told.contains(way.said()),
            "not {:?}, which `roce run -v` says of {way:?}:\n{told}",
            way.said()
        );
        let counted = fs::read_to_string(folder.path().join(".roce-bytes")).unwrap_or_default();
        let roce_bytes = counted.trim().parse();
        Played {
            roce_bytes: roce_bytes.expect("the stage leaves the counter"),
            sent_bytes: sent_in_summary(&told),
            output: told,
        }
    }
}

/// How the programs of a script see their devices.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Files of a mount namespace: root's, or one in a user namespace.
    Namespace,
    /// A preloaded library, under a filter of system calls like that of Docker's default profile.
    Container,
}

impl Way {
    /// The way that [`WAY`] names.
    fn asked_for() -> Self {
        match env::var(WAY).as_deref() {
            Err(_) => Self::Namespace,
            Ok("container") => Self::Container,
            Ok(other) => panic!("{WAY}={other}: it can be container, or unset"),
        }
    }

    /// The command, with its arguments, that runs `roce run`. It is compiled into `folder`.
    fn confine(self, folder: &Path) -> OsString {
        match self {
            Self::Namespace => OsString::new(),
            Self::Container => {
                let profile = default_profile(folder);
                let mut command = OsString::new();
                if is_root() {
                    // The capability that Docker takes from root.
                    command.push("setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin ");
                }
                command.push(profile);
                command
            }
        }
    }

    /// The report of `roce run -v` about it.
    fn said(self) -> &'static str {
        match self {
            Self::Namespace if is_root() => "way 1 of 3",
            Self::Namespace => "way 2 of 3",
            Self::Container => "way 3 of 3",
        }
    }
}

/// Compiles the program that runs a command under Docker's default profile.
fn default_profile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = source.join("../cli/tests/run/c/default_profile.c");
    let to = folder.join("default_profile");
    testkit::compile("cc", source, &to, &[]);
    to
}

impl Played {
    /// Asserts that RoCE packets moved at least `bytes` bytes of payload.
    ///
    /// # Panics
    /// If fewer did.
    #[track_caller]
    pub fn moved(&self, bytes: u64) -> &Self {
        let off = env::var("ROCE_LOCAL").is_ok_and(|value| value == "off");
        // Three digits may be half a percent less than the number.
        let by_memory = if off {
            0
        } else {
            self.sent_bytes + self.sent_bytes / 200
        };
        assert!(
            self.roce_bytes.max(by_memory) >= bytes,
            "{bytes} bytes were to move by RoCE. The kernel counted {}, and the summary {by_memory}:\n{}",
            self.roce_bytes,
            self.output
        );
        self
    }

    /// Asserts that the programs printed this.
    ///
    /// # Panics
    /// If they did not.
    #[track_caller]
    pub fn says(&self, part: &str) -> &Self {
        assert!(
            self.output.contains(part),
            "no {part:?} in:\n{}",
            self.output
        );
        self
    }
}

/// The bytes that were sent, of the line `…; 1.05 MB sent and 0 bytes received`. 0 without such a line. If
/// there was no payload, the line ends with `, in 7 packets`, each of which has the headers of IP, UDP and RoCE.
fn sent_in_summary(told: &str) -> u64 {
    const UNITS: [(&str, f64); 5] = [
        ("bytes", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
    ];
    let lines = told.lines().rev();
    let of_line = |line: &str| {
        const HEADERS: u64 = 20 + 8 + 12 + 4;
        let (before, after) = line.split_once(" sent and ")?;
        if let Some((_, packets)) = after.split_once(", in ") {
            let count: Option<u64> = packets.split(' ').next()?.parse().ok();
            return count.map(|count| count * HEADERS);
        }
        let mut words = before.rsplit(' ');
        let (unit, number) = (words.next()?, words.next()?);
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        Some((number.parse::<f64>().ok()? * factor) as u64)
    };
    lines.filter_map(of_line).next().unwrap_or(0)
}

/// The command that creates namespaces and runs its arguments in them. It is killed when this
/// thread ends.
fn stage() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    if is_root() {
        command.env("DROP", "");
    } else {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
        // The script has no more rights than the user that it runs as.
        command.env("DROP", "setpriv --inh-caps=-all --ambient-caps=-all");
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Checks that namespaces and a packet counter are available.
fn namespaces() -> Result<(), String> {
    let tried = stage()
        .args(["sh", "-c", "nft list tables && ip link add near type veth"])
        .env("PATH", programs::search_path())
        .output()
        .map_err(|error| error.to_string())?;
    if tried.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned())
}

/// The library that programs load. Cargo builds it next to the calling test.
fn library() -> PathBuf {
    if let Some(path) = env::var_os("ROCE_LIBRARY_UNDER_TEST") {
        return path.into();
    }
    let test = env::current_exe().expect("a running program has a path");
    let built = test.with_file_name("libroce_verbs_shim.so");
    assert!(built.is_file(), "cargo builds {}", built.display());
    built
}

#[cfg(test)]
mod tests {
    use super::sent_in_summary;

    #[test]
    fn the_summary_says_how_much_was_sent() {
        let line = "roce: sh: 2 processes opened devices, 2 times in all; 2 QPs, 2 of them connected to a peer; ";
        for (said, bytes) in [
            ("1.05 MB", 1_050_000),
            ("999 bytes", 999),
            ("10.0 kB", 10_000),
        ] {
            let told = format!("before\n{line}{said} sent and 3 bytes received\nafter");
            assert_eq!(sent_in_summary(&told), bytes);
        }
        let told = format!("{line}0 bytes sent and 0 bytes received, in 10 packets");
        assert_eq!(sent_in_summary(&told), 440);
        assert_eq!(sent_in_summary("nothing was sent and nothing received"), 0);
    }
}
