//! rdma-core's own tests, unmodified, through its Python bindings: those of release 44, as in
//! Debian 12, except for those of single vendors' devices.
//!
//! None may fail. Those in `pyverbs/ok.txt` must pass. The others must be skipped, with the message
//! that `docs/c-api.md` lists for each.

mod huge_pages;
mod lists;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use roce_tests::programs::compiles_verbs_or_skip;
use roce_tests::veth::{End, Pair};

use crate::library;
use huge_pages::HugePages;

/// Debian's Python, for which Debian's bindings are built.
const PYTHON: &str = "/usr/bin/python3";

/// Where Debian puts the tests.
const INSTALLED: &str = "/usr/share/doc/rdma-core/tests";

/// Timeout of all tests together. They take a few seconds; a test that waits for a completion
/// gives up after 15 s.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A file of this test.
fn here(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libibverbs/pyverbs");
    folder.join(name)
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Ok,
    Skipped(String),
    Failed(String),
}

fn is_there_or_skip() -> bool {
    let version = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", "rdma-core"])
        .output();
    let is_44 = version.is_ok_and(|version| version.stdout.starts_with(b"44."));
    let bindings = Path::new("/usr/lib/python3/dist-packages/pyverbs").is_dir();
    let there = is_44 && bindings && Path::new(INSTALLED).join("run_tests.py").is_file();
    if !there {
        testkit::skip(
            "Debian 12's rdma-core with its documentation, and python3-pyverbs",
            "",
        );
    }
    there
}

/// Unpacks the tests, except for those of vendors' devices. The vendors' shared modules are
/// unpacked, because other tests import them.
fn unpack(to: &Path) {
    fs::create_dir(to).expect("a new folder");
    for entry in fs::read_dir(INSTALLED).expect("checked before") {
        let from = entry.expect("it is listed").path();
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let vendors = ["test_mlx5", "test_efa", "test_cuda"];
        if from.is_file() && !vendors.iter().any(|vendor| name.starts_with(vendor)) {
            fs::copy(&from, to.join(&*name)).expect("a copy");
        }
    }
    let unpacked = Command::new("gunzip").arg("-r").arg(to).status();
    assert!(unpacked.expect("gunzip runs").success());
}

/// Compiles a library that provides dma-bufs to pyverbs.
fn dmabuf_library_or_skip(folder: &Path) -> Option<PathBuf> {
    if !compiles_verbs_or_skip() {
        return None;
    }
    let source = here("dmabuf.c");
    let library = folder.join("dmabuf.so");
    testkit::compile("cc", source, &library, &["-shared", "-fPIC"]);
    Some(library)
}

/// Runs the tests on the device of an interface. A loopback address would not work for all of them:
/// an ID bound to it has no device, and some tests check the device. Returns the outcome of each
/// test, and the output of the run.
fn run(end: &End, folder: &Path, dmabuf_library: &Path) -> (BTreeMap<String, Outcome>, String) {
    let tests = folder.join("tests");
    unpack(&tests);
    let (outcomes, log) = (folder.join("outcomes"), folder.join("log"));
    let library = library::folder();
    let log_file = File::create(&log).expect("a new file");
    let device = format!("roce_{}", end.interface);
    let mut child = end
        .command(PYTHON)
        .arg(here("run.py"))
        .args([tests.as_os_str(), device.as_ref(), outcomes.as_os_str()])
        .current_dir(folder)
        .env("LD_LIBRARY_PATH", library.path())
        .env("LD_PRELOAD", dmabuf_library)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(log_file.try_clone().expect("a descriptor"))
        .stderr(log_file)
        .spawn()
        .expect("Python is installed");
    let deadline = Instant::now() + TIMEOUT;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let log = fs::read_to_string(&log).unwrap_or_default();
            panic!("the tests do not end: {log}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = fs::read_to_string(log).expect("it was written");
    let outcomes = fs::read_to_string(outcomes).expect("it was written");
    (outcomes.lines().map(lists::outcome).collect(), log)
}

#[test]
fn rdma_cores_own_tests_pass() {
    if !is_there_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (Some(dmabuf_library), Some(pair)) = (
        dmabuf_library_or_skip(folder.path()),
        Pair::new_or_skip(1500, 1),
    ) else {
        return;
    };
    let pages = HugePages::reserve_or_skip();
    let (found, log) = run(&pair.near, folder.path(), &dmabuf_library);
    let failed: Vec<_> = found
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Failed(trace) => Some(format!("{name}: {trace}")),
            Outcome::Ok | Outcome::Skipped(_) => None,
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let mut expected = lists::expected();
    if pages.is_none() {
        lists::without_huge_pages(&mut expected);
    }
    let differ = lists::differences(&expected, &found);
    assert!(differ.is_empty(), "{}\n{log}", differ.join("\n"));
}
