//! Clusters for tests.

use roce_tests::programs::{built, roce};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::heed_signals;

/// The user without privilege, who owns nothing.
const NOBODY: u32 = 65534;

/// The most seconds of a script. What it waits for may never come.
const LIMIT: &str = "100";

/// Who makes a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user who runs the tests.
    Own,
    /// If that is root, an ordinary user.
    Ordinary,
}

/// The output of a program, with its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

/// `roce fabric` with these options, which runs a script of the shell on h1, for a limited time. In the
/// script, `$ROCE` is the command.
pub(crate) fn command(user: User, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(roce());
    command.arg("fabric").args(options);
    command.args(["--", "timeout", LIMIT, "sh", "-euc", script]);
    with_roce(&mut command)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("HOME", "/tmp")
        .stdin(Stdio::null());
    if user == User::Ordinary && is_root() {
        // This also drops all groups.
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Tells a script where the command is, `$ROCE`, and tells the command where cargo builds the
/// libraries with the tests: beside the calling test.
pub(crate) fn with_roce(command: &mut Command) -> &mut Command {
    let library = built("libroce_verbs_shim.so");
    heed_signals();
    command
        .env("ROCE", roce())
        .env("ROCE_LIBRARY_DIR", library.parent().expect("its folder"))
}

/// Whether root runs the tests.
pub(crate) fn is_root() -> bool {
    // SAFETY: it has no arguments and no effect.
    unsafe { libc::geteuid() == 0 }
}

/// Whether root runs the tests. If not, the calling test is skipped.
pub(crate) fn is_root_or_skip() -> bool {
    if !is_root() {
        testkit::skip("root", "");
    }
    is_root()
}

/// Runs a script on a cluster; `None` if this machine can't have one.
pub(crate) fn run(user: User, options: &[&str], script: &str) -> Option<Ran> {
    if !can_or_skip(user) {
        return None;
    }
    let output = command(user, options, script).output().expect("roce runs");
    Some(Ran::of(&output))
}

/// Whether clusters can be made here.
pub(crate) fn can_or_skip(user: User) -> bool {
    if !Path::new("/dev/net/tun").exists() {
        testkit::skip("/dev/net/tun", "");
        return false;
    }
    let output = command(user, &["--hosts", "1"], "true").output();
    let output = output.expect("roce runs");
    // 125: there is no cluster.
    if output.status.code() == Some(125) {
        testkit::skip("a cluster of roce fabric", &Ran::of(&output).text);
        return false;
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    true
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        Self {
            code: output.status.code(),
            text: texts.concat(),
        }
    }

    /// Asserts that the program ended like this.
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    /// Asserts that it said this.
    #[track_caller]
    pub(crate) fn says(&self, what: &str) -> &Self {
        assert!(self.text.contains(what), "no {what:?} in {}", self.text);
        self
    }
}

/// A folder in which all users can make files, for reports.
pub(crate) fn shared_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("a folder of ours");
    folder
}

/// A file that all users can execute, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Shared(std::path::PathBuf);

impl Shared {
    pub(crate) fn program(path: std::path::PathBuf) -> Self {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        Self(path)
    }

    pub(crate) fn path(&self) -> std::borrow::Cow<'_, str> {
        self.0.to_string_lossy()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
