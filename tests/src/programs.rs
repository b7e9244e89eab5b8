//! Programs that tests run: the project's own, and other people's.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

/// The `roce` command: the one that the environment variable `ROCE_UNDER_TEST` names,
/// or else the one of the same build as the test that asks for it, which the first call
/// has cargo build.
///
/// # Panics
/// If it does not build.
pub fn roce() -> &'static Path {
    static ROCE: OnceLock<PathBuf> = OnceLock::new();
    ROCE.get_or_init(|| {
        if let Some(path) = env::var_os("ROCE_UNDER_TEST") {
            return path.into();
        }
        // target/<profile>/deps/<test>, and examples one level higher up.
        let test = env::current_exe().expect("a running program has a path");
        let profile_dir = test
            .ancestors()
            .find(|dir| dir.join(".fingerprint").is_dir())
            .unwrap_or_else(|| panic!("{} is not in a target directory", test.display()));
        build_roce(profile_dir)
    })
}

fn build_roce(profile_dir: &Path) -> PathBuf {
    let target_dir = profile_dir.parent().expect("a profile is in a target");
    // The directory of the profiles "dev" and "test" is called "debug".
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--package", "roce", "--bin", "roce"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target_dir)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let status = build.status();
    assert!(
        status.as_ref().is_ok_and(|status| status.success()),
        "{build:?}: {status:?}"
    );
    let roce = profile_dir.join("roce");
    assert!(roce.is_file(), "{build:?} did not make {}", roce.display());
    roce
}

/// Whether a program of somebody else's is installed. If not, says on stderr that the
/// test that asks is skipped and why.
///
/// # Panics
/// If it is not, and the environment variable `ROCE_LAB` is `require`.
pub fn is_installed_or_skip(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        return true;
    }
    assert!(
        env::var_os("ROCE_LAB").is_none_or(|value| value != "require"),
        "{program} is not installed, and ROCE_LAB=require"
    );
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // To the real stderr, past the test harness, which would hide it.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: {test} needs {program}, which is not installed"
    );
    false
}
