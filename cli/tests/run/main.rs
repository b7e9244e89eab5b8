//! `roce run` and `roce env`, as root and as an ordinary user. Most tests use a dummy library;
//! those with third-party programs use the real one.

mod bundled;
mod cdi;
mod commands;
mod environment;
mod hunt;
mod injected;
mod namespace;
mod process;
mod programs;
mod queries;
mod summary;
mod ways;
mod why;
mod wrong;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The command under test.
const ROCE: &str = env!("CARGO_BIN_EXE_roce");

/// An unprivileged user, who owns nothing. Not 65534, which a user namespace shows for all users that it
/// does not map.
const NOBODY: &str = "12345";

/// A folder, with a space in its name, with a dummy library.
struct Library {
    _root: TempDir,
    folder: PathBuf,
}

impl Library {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("a b");
        fs::create_dir(&folder).expect("made");
        // Tests that run as another user read this folder, too.
        for path in [root.path(), &folder] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("allowed");
        }
        fs::write(folder.join("libroce_verbs_shim.so"), "ROCE_DATAPATH").expect("written");
        Self {
            _root: root,
            folder,
        }
    }

    /// The same library under the name that programs ask for.
    fn installed(&self) -> PathBuf {
        let path = self.folder.join("libibverbs.so.1");
        fs::write(&path, "ROCE_DATAPATH").expect("written");
        path
    }

    /// `roce run` with this library, which can't be preloaded.
    fn run(&self, who: Who) -> Command {
        let mut command = who.command(ROCE);
        command.args(["run", "--preload", "never", "--library"]);
        command.arg(&self.folder);
        command
    }

    /// `roce run` of a shell script that does not load the library, which would fail.
    fn shell(&self, who: Who, options: &[&str], script: &str) -> Output {
        let mut command = self.run(who);
        command.args(options).args(["--", "sh", "-c", script]);
        command.output().expect("it starts")
    }
}

/// The user who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// The user who runs the tests.
    Myself,
    /// An ordinary user; the tests are run by root.
    Nobody,
}

impl Who {
    /// A command of this user.
    fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self {
            Self::Myself => Command::new(program),
            Self::Nobody => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
                command.arg(program);
                command
            }
        };
        let variables = [
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "ROCE_DEVICES",
            "ROCE_DEVICE_NAMES",
        ];
        for variable in variables {
            command.env_remove(variable);
        }
        command.current_dir("/");
        command
    }

    /// The users that can create a namespace here. Each test reports once which users it skips.
    fn with_namespaces(test: &str) -> Vec<Self> {
        let may = |who: &Self| {
            let output = who.command(ROCE).arg("probe-namespace").output();
            let why = match output {
                Ok(output) if output.status.success() => return true,
                Ok(output) => text(&output.stderr),
                Err(error) => error.to_string(),
            };
            testkit::skip_test(test, "user namespaces", &format!("{who:?}: {}", why.trim()));
            false
        };
        Self::all().into_iter().filter(may).collect()
    }

    fn all() -> Vec<Self> {
        match nix::unistd::geteuid().is_root() {
            true => vec![Self::Myself, Self::Nobody],
            false => vec![Self::Myself],
        }
    }
}

/// Reports loudly that a case was skipped for want of `need`, or fails where none may be.
fn skip(test: &str, need: &str) {
    testkit::skip_test(test, need, "");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that succeeded.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// Whether a path ends as a test expects, for messages.
fn exists(path: impl AsRef<Path>) -> bool {
    fs::symlink_metadata(path).is_ok()
}
