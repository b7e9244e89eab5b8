//! Programs that tests run: the project's own, and other people's.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

/// The `roce` command: the one that the environment variable `ROCE_UNDER_TEST` names,
/// or else the one of the same build as the test that asks for it.
///
/// # Panics
/// If it was not built: cargo does so for integration tests, not for `--lib` alone.
pub fn roce() -> &'static Path {
    static ROCE: OnceLock<PathBuf> = OnceLock::new();
    ROCE.get_or_init(|| {
        if let Some(path) = env::var_os("ROCE_UNDER_TEST") {
            return path.into();
        }
        // target/<profile>/deps/<test>, and examples one level higher up.
        let test = env::current_exe().expect("a running program has a path");
        let built = test.ancestors().map(|dir| dir.join("roce-under-test"));
        built
            .into_iter()
            .find(|path| path.is_file())
            .unwrap_or_else(|| {
                panic!(
                    "no roce-under-test above {}: run cargo build -p roce-tests --bins",
                    test.display()
                )
            })
    })
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
