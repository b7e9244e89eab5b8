//! `roce cdi`. tests/tests/containers shows what containers do with its output.

use super::*;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

/// `roce cdi generate` with a library that is no real one.
fn generate(library: &Library, arguments: &[&str]) -> Output {
    for name in ["libroce_preload.so", "librspreload.so"] {
        fs::write(library.folder.join(name), "\0GLIBC_2.30\0").expect("written");
    }
    // Engines of other users read the output, whatever the mask.
    let mut command = Who::Myself.command("sh");
    command
        .args(["-c", "umask 077; exec \"$@\"", "sh", ROCE])
        .args(["cdi", "generate", "--library"])
        .arg(&library.folder);
    command.args(arguments).output().expect("it starts")
}

#[test]
fn a_container_gets_every_part_read_only() {
    let library = Library::new();
    let spec: Value = serde_json::from_str(&said(&generate(&library, &[]))).expect("JSON");
    assert_eq!(spec["cdiVersion"], "0.3.0");
    assert_eq!(spec["kind"], "roce.dev/nic");
    let devices = spec["devices"].as_array().expect("a list");
    let device = |device: &Value| {
        (
            device["name"].clone(),
            device["containerEdits"]["env"].clone(),
        )
    };
    assert_eq!(
        devices.iter().map(device).collect::<Vec<_>>(),
        [
            (json!("all"), json!(["ROCE_DEVICES=^lo"])),
            (json!("lo"), json!(["ROCE_DEVICES=lo"])),
        ]
    );
    let edits = &spec["containerEdits"];
    let settings = edits["env"].as_array().expect("a list");
    assert!(
        settings.contains(&json!("OMPI_MCA_opal_common_ucx_devices=any")),
        "{settings:?}"
    );
    let mounts = edits["mounts"].as_array().expect("a list");
    let mut places: Vec<_> = mounts
        .iter()
        .map(|mount| mount["containerPath"].as_str())
        .collect();
    places.sort_unstable();
    let expected = [
        "/etc/ld.so.preload",
        "/opt/roce/bin/roce",
        "/opt/roce/lib/roce/libibverbs.so",
        "/opt/roce/lib/roce/libibverbs.so.1",
        "/opt/roce/lib/roce/libroce_preload.so",
        "/opt/roce/lib/roce/librspreload.so",
    ];
    assert_eq!(places, expected.map(Some));
    for mount in mounts {
        assert_eq!(
            mount["options"],
            json!(["bind", "ro", "nosuid", "nodev"]),
            "{mount}"
        );
        assert!(exists(mount["hostPath"].as_str().expect("text")), "{mount}");
    }
    let list = fs::read_to_string(library.folder.join("container.ld.so.preload")).expect("made");
    assert!(list.lines().all(|line| expected.contains(&line)), "{list}");
}

#[test]
fn the_output_is_a_file_that_engines_read() {
    let library = Library::new();
    let at = |name: &str| library.folder.join("etc/cdi").join(name);
    let text_of = |path: &Path| path.to_str().expect("text").to_owned();
    let to = |path: &Path| generate(&library, &["--output", &text_of(path)]);
    // The second run replaces what the first one made.
    for _ in 0..2 {
        let output = to(&at("roce.json"));
        assert_eq!(said(&output), "");
        let told = text(&output.stderr);
        assert!(told.contains("images need glibc 2."), "{told}");
        let mode = fs::metadata(at("roce.json"))
            .expect("made")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        let spec = fs::read(at("roce.json")).expect("made");
        serde_json::from_slice::<Value>(&spec).expect("JSON");
    }
    for name in ["roce", "roce.txt"] {
        let output = to(&at(name));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = text(&output.stderr);
        assert!(
            told.contains(name) && told.contains("/etc/cdi/roce.json"),
            "{told}"
        );
    }
    symlink(at("precious"), at("link.json")).expect("made");
    let output = to(&at("link.json"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("symbolic link"), "{output:?}");
    assert!(!exists(at("precious")));
}

#[test]
fn a_part_that_is_missing_or_another_users_is_named() {
    let library = Library::new();
    let mut command = Who::Myself.command(ROCE);
    command.args(["cdi", "generate", "--library", "/nonexistent"]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("cargo build"), "{output:?}");
    if !testkit::root_or_skip() {
        return;
    }
    let file = library.folder.join("libroce_verbs_shim.so");
    std::os::unix::fs::chown(&file, Some(12_345), None).expect("root may");
    let told = text(&generate(&library, &[]).stderr);
    let expected = format!("{} (user 12345)", file.display());
    assert!(
        told.contains("warning: other users own") && told.contains(&expected),
        "{told}"
    );
}
