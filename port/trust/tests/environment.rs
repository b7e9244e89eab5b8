//! A program with more rights than its caller takes nothing from its environment.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An ordinary user.
const CALLER: u32 = 12_345;

/// What the line of the setuid program begins with.
const MARK: &str = "READ: ";

fn skip(test: &str, why: &str) {
    testkit::skip_test(
        test,
        "root, and a folder in which setuid has an effect",
        why,
    );
}

/// The main function of the other program, which is a copy of this one.
#[test]
fn reader() {
    let user = roce_trust::OwnUser::now().id();
    println!(
        "{MARK}{user} {:?}",
        roce_trust::environment::variable("ROCE_LOG")
    );
}

/// The effective user of a program that `CALLER` starts, and the variable that it reads.
fn read_by(program: &Path) -> String {
    let output = Command::new(program)
        .args(["--exact", "reader", "--nocapture"])
        .env("ROCE_LOG", "/etc/of-the-caller")
        .uid(CALLER)
        .gid(CALLER)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once(MARK));
    line.unwrap_or_else(|| panic!("{output:?}")).1.to_owned()
}

#[test]
fn a_setuid_program_ignores_the_variables_of_its_caller() {
    let test = "a_setuid_program_ignores_the_variables_of_its_caller";
    let dir = tempfile::tempdir().expect("a folder");
    if fs::metadata(dir.path()).expect("there").uid() != 0 {
        return skip(test, "it takes root");
    }
    let program = dir.path().join("program");
    fs::copy(std::env::current_exe().expect("a path"), &program).expect("copied");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("allowed");
    };
    set(dir.path(), 0o755);
    set(&program, 0o755);
    let ordinary = format!("{CALLER} Some(\"/etc/of-the-caller\")");
    assert_eq!(read_by(&program), ordinary);
    set(&program, 0o4755);
    match read_by(&program) {
        // The file system is mounted with nosuid, or the process may gain no privileges.
        read if read == ordinary => skip(test, "setuid has no effect here"),
        read => assert_eq!(read, "0 None"),
    }
}

/// The sources of a folder that are part of a library: no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        match name {
            Some("tests" | "testing") => {}
            _ if path.is_dir() => sources(&path, found),
            _ if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// Each library that reads a variable by itself would read it in a setuid program, too.
#[test]
fn no_library_reads_its_variables_in_another_way() {
    const ALLOWED: &[&str] = &[
        // The one place.
        "port/trust/src/environment.rs",
        // Without an allocation; it asks `is_ignored` first.
        "apps/preload/src/root.rs",
        // Names only.
        "verbs/src/environment/unknown.rs",
    ];
    const LIBRARIES: &[&str] = &[
        "wire",
        "stack",
        "port",
        "cm",
        "udp",
        "xdp",
        "instruments/capture",
        "instruments/faults",
        "instruments/observe",
        "verbs",
        "verbs-shim",
        "apps/preload",
        "apps/rspreload",
        "apps/nvme",
        "apps/rsockets",
        "apps/sim",
        "apps/fabric",
        "port/trust",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the repository");
    let mut found = Vec::new();
    for library in LIBRARIES {
        sources(&root.join(library).join("src"), &mut found);
    }
    assert!(found.len() > 300, "{}", found.len());
    let reads = |text: &str| {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        ["env::var", "getenv"]
            .iter()
            .any(|call| text.contains(call))
    };
    let reading: Vec<_> = found
        .iter()
        .filter(|path| reads(&fs::read_to_string(path).expect("text")))
        .map(|path| {
            path.strip_prefix(root)
                .expect("in it")
                .display()
                .to_string()
        })
        .filter(|path| !ALLOWED.contains(&&**path))
        .collect();
    assert!(
        reading.is_empty(),
        "use roce_trust::environment::variable in {reading:?}"
    );
}
