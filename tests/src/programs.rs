//! Programs that tests run: the project's own and third-party ones.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::has_header_or_skip;

pub use testkit::{
    compiles_rdmacm_or_skip, compiles_verbs_or_skip, is_installed_or_skip, search_path,
};

/// The `roce` command: the one that the environment variable `ROCE_UNDER_TEST` names, or else the
/// one of the same build as the calling test or bench. For tests it is `roce-under-test`, which
/// cargo builds with them; for benches it is `roce` in their folder.
///
/// # Panics
/// If it was not built: cargo does so for integration tests, not for `--lib` alone.
pub fn roce() -> &'static Path {
    static ROCE: OnceLock<PathBuf> = OnceLock::new();
    ROCE.get_or_init(|| match env::var_os("ROCE_UNDER_TEST") {
        Some(path) => path.into(),
        None => sibling("roce-under-test")
            .or_else(|| sibling("roce"))
            .unwrap_or_else(|| built("roce-under-test")),
    })
}

/// Ends a program under `roce run`, by a signal that `roce run` forwards: the program has ended, too,
/// when this returns. If `roce run` were killed, the next program could still find the interface in
/// use. Does nothing if the program has ended.
pub fn end(child: &mut Child) {
    const PATIENCE: Duration = Duration::from_secs(5);
    let patient_until = Instant::now() + PATIENCE;
    if let Ok(None) = child.try_wait() {
        // SAFETY: it sends a signal to the child, which has not been waited for.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
        while Instant::now() < patient_until && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A program of this package, of the same build as the calling test.
///
/// # Panics
/// If it was not built: cargo does so for integration tests, not for `--lib` alone.
pub fn built(name: &str) -> PathBuf {
    sibling(name).unwrap_or_else(|| {
        panic!(
            "no {name} above {}: run cargo build -p roce-tests --bins",
            running().display()
        )
    })
}

/// A folder for `LD_LIBRARY_PATH`, with the library of the same build as the calling test.
///
/// # Panics
/// If it was not built, or the folder can't be made.
pub fn library() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let library = built("libroce_verbs_shim.so");
    symlink(library, folder.path().join("libibverbs.so.1")).expect("a link");
    folder
}

/// Whether a socket of a child's network namespace listens at a TCP port.
pub fn listens_at(child: &Child, port: u16) -> bool {
    let port = format!(":{port:04X}");
    // The second column is the address, the fourth the state, of which 0A is LISTEN.
    let listens = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|local| local.ends_with(&port)) && words.get(3) == Some(&"0A")
    };
    ["tcp", "tcp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{}/net/{table}", child.id()));
        table.unwrap_or_default().lines().any(listens)
    })
}

/// A file in the folder of the running program, or in one above it: tests are in
/// target/PROFILE/deps, examples and benches one level higher up.
fn sibling(name: &str) -> Option<PathBuf> {
    let running = running();
    let mut found = running.ancestors().map(|dir| dir.join(name));
    found.find(|path| path.is_file())
}

fn running() -> PathBuf {
    env::current_exe().expect("a running program has a path")
}

/// A file of librdmacm-dev.
const RDMACM_HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// As [`compiled_or_skip`], for a program that uses librpma.
///
/// # Panics
/// As there.
pub fn compiled_with_rpma_or_skip(source: &str) -> Option<PathBuf> {
    (compiles_rdmacm_or_skip() && has_header_or_skip("librpma.h", "librpma-dev"))
        .then(|| compile("cc", source, &["-lrpma", "-libverbs", "-lrdmacm"]))
}

/// Compiles a C program of this project with the system's compiler and libibverbs, and
/// librdmacm if the machine has its header. Returns `None` if the machine lacks them, after a line
/// on stderr that the calling test is skipped.
///
/// # Panics
/// If the compilation into the folder for temporary files fails, or the machine lacks a requirement
/// and the environment variable `ROCE_LAB` is `require`.
pub fn compiled_or_skip(source: &str) -> Option<PathBuf> {
    if !compiles_verbs_or_skip() {
        return None;
    }
    Some(compile("cc", source, &libraries()))
}

/// Compiles a C program of this project with `compiler`, which can be MPI's wrapper. Returns `None`
/// if the machine lacks it, or libibverbs or librdmacm among `libraries`, after a line on stderr.
///
/// # Panics
/// As [`compiled_or_skip`].
pub fn compiled_by_or_skip(compiler: &str, source: &str, libraries: &[&str]) -> Option<PathBuf> {
    let has_libraries = libraries.iter().all(|library| match *library {
        "-libverbs" => compiles_verbs_or_skip(),
        "-lrdmacm" => compiles_rdmacm_or_skip(),
        _ => true,
    });
    (has_libraries && is_installed_or_skip(compiler)).then(|| compile(compiler, source, libraries))
}

fn compile(compiler: &str, source: &str, libraries: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let name = Path::new(source).file_stem().unwrap_or_default();
    // Each call has its own file, because the file of a running program can't be written.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // Not in the test's folder, which may not be writable.
    let program = env::temp_dir().join(format!(
        "roce-{}-{}-{call}",
        name.to_string_lossy(),
        std::process::id()
    ));
    testkit::compile(compiler, root.join(source), &program, libraries);
    program
}

/// What C programs are linked to. Those that do not use a library do not need it.
fn libraries() -> Vec<&'static str> {
    let mut libraries = vec!["-libverbs"];
    if Path::new(RDMACM_HEADER).is_file() {
        libraries.extend(["-Wl,--as-needed", "-lrdmacm"]);
    }
    libraries
}
