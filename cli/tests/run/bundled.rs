//! Copies of libibverbs that programs bring along under another name, as wheels do.

use super::programs::{installed, library};
use super::ways::{build, built};
use super::*;

/// A program, and its plug-in that is linked to a copy of libibverbs.
fn program(folder: &Path) -> [PathBuf; 2] {
    const COPY: &str = "libibverbs-0123abcd.so.1";
    let map = folder.join("map");
    fs::write(&map, "IBVERBS_1.1 { global: ibv_*; local: *; };\n").expect("written");
    let script = format!("-Wl,--version-script={}", map.display());
    let shared = ["-shared", "-fPIC"];
    let soname = format!("-Wl,-soname,{COPY}");
    let options = [&shared[..], &["-DLIBRARY", &script, &soname]].concat();
    let copy = built(folder, "bundled", COPY, &options);
    let copy = copy.to_str().expect("text");
    let options = [&shared[..], &["-DPLUGIN", copy, "-Wl,-rpath,$ORIGIN"]].concat();
    let plugin = built(folder, "bundled", "plugin.so", &options);
    [build(folder, "bundled", &["-ldl"]), plugin]
}

#[test]
fn a_renamed_copy_of_libibverbs_is_replaced() {
    let test = "a_renamed_copy_of_libibverbs_is_replaced";
    if !installed(test, &["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("allowed");
    let [program, plugin] = program(folder.path());
    for who in Who::all() {
        let run = |options: &[&str]| {
            let mut command = who.command(ROCE);
            command.args(["run", "--quiet"]).args(options);
            command.arg("--library").arg(library()).arg("--");
            let output = command.arg(&program).arg(&plugin).output();
            said(&output.expect("it starts"))
        };
        assert_eq!(run(&["--preload", "never"]), "none\n", "{who:?}");
        for namespace in ["auto", "preload", "none"] {
            let found = run(&["--namespace", namespace]);
            assert_eq!(found, "devices\n", "{who:?} {namespace}");
        }
    }
}

/// The sanitizer refuses to start if another library is loaded before its own.
#[test]
fn programs_with_an_address_sanitizer_start() {
    let test = "programs_with_an_address_sanitizer_start";
    if !installed(test, &["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = built(
        folder.path(),
        "bundled",
        "sanitized",
        &["-fsanitize=address", "-ldl"],
    );
    let mut command = Who::Myself.command(ROCE);
    command.args(["run", "--library"]).arg(library());
    let output = command.arg("--").arg(&program).output().expect("it starts");
    // Its own error, not the sanitizer's.
    assert!(
        text(&output.stderr).starts_with("no plug-in\n"),
        "{output:?}"
    );
}

/// The library is preloaded into every process. In a shell that never calls it, it starts no
/// thread.
#[test]
fn a_preloaded_library_starts_nothing() {
    for who in Who::all() {
        let mut command = who.command(ROCE);
        command.args(["run", "-q", "--library"]).arg(library());
        let script =
            "grep -c libroce_verbs_shim.so /proc/self/maps > /dev/null && ls /proc/$$/task | wc -l";
        command.args(["--", "sh", "-c", script]);
        let output = command.output().expect("it starts");
        assert_eq!(said(&output).trim(), "1", "{who:?}");
    }
}
