//! `roce doctor` on this machine.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A file that passes for this stack's library.
fn library(folder: &Path) -> String {
    let path = folder.join("libibverbs.so.1");
    std::fs::write(&path, "ROCE_DATAPATH").expect("written");
    path.to_str().expect("text").to_owned()
}

fn doctor(arguments: &[&str]) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["doctor", "--json", "--library", &library(folder.path())])
        .args(arguments)
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .expect("roce starts");
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

fn of<'a>(report: &'a Value, check: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().expect("findings");
    all.iter()
        .filter(|finding| finding["check"] == check)
        .collect()
}

#[test]
fn a_stranger_on_the_port_is_found_and_one_of_ours_is_not() {
    if !testkit::enters_network_namespace_or_skip() {
        return;
    }
    let (_, report) = doctor(&[]);
    assert_eq!(of(&report, "port 4791")[0]["status"], "ok", "{report:#}");

    let stranger = UdpSocket::bind("127.0.0.1:4791").expect("the port is free");
    let (code, report) = doctor(&[]);
    assert_eq!(code, Some(1), "{report:#}");
    let found = of(&report, "port 4791")[0];
    assert_eq!(found["status"], "failure", "{report:#}");
    assert_eq!(found["remedy"], format!("kill {}", std::process::id()));
    drop(stranger);

    let device = roce_verbs::Device::named("roce_lo").expect("the loopback");
    let context = device.open().expect("it opens");
    let (pd, cq) = (context.alloc_pd(), context.create_cq(1));
    let qp = pd.create_qp(&cq, &cq, &roce_verbs::QpOptions::default());
    let qp = qp.expect("a QP");
    let gid = context.gids().first().expect("a GID").index;
    let endpoint = qp.endpoint(gid).expect("an endpoint");
    qp.connect(gid, &endpoint, &roce_verbs::ConnectOptions::default())
        .expect("connected");
    let (_, report) = doctor(&[]);
    let found = of(&report, "port 4791")[0];
    assert_eq!(found["status"], "ok", "{report:#}");
    let own = format!("(process {})", std::process::id());
    assert!(
        found["what"]
            .as_str()
            .is_some_and(|what| what.contains(&own)),
        "{report:#}"
    );
}

#[test]
fn programs_and_variables_are_checked() {
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["doctor", "sh", "/nonexistent/program"])
        .envs([
            ("ROCE_FAULTS", "nonsense"),
            ("ROCE_FAULT", "x"),
            ("UCX_TLS", "tcp"),
        ])
        .output()
        .expect("roce starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Only once, though the command checks its environment, too.
    assert!(output.stderr.is_empty(), "{output:?}");
    for part in [
        "FAILURE  variables ",
        "ROCE_FAULTS is \"nonsense\"",
        "    unset ROCE_FAULT\n",
        "    export UCX_TLS=rc_verbs",
        "ok       sh ",
        "FAILURE  /nonexistent/program ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Compiled C programs with libraries of their own.
#[test]
fn a_copy_of_the_library_that_a_program_brings_along_is_found() {
    if !testkit::is_installed_or_skip("cc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("there");
    std::fs::create_dir(root.join("lib")).expect("made");
    let source = root.join("a.c");
    std::fs::write(
        &source,
        "int here(void) { return 0; } int main(void) { return here(); }",
    )
    .expect("written");
    let cc = |arguments: &[&str]| {
        let output = Command::new("cc")
            .current_dir(&root)
            .args(arguments)
            .output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{output:?}");
    };
    for (name, kind) in [
        ("libibverbs.so.1", "a copy"),
        ("libibverbs-1de1263b.so.1.14.48.0", "a renamed copy"),
    ] {
        let library = format!("lib/{name}");
        let soname = format!("-Wl,-soname,{name}");
        cc(&["-shared", "-fPIC", "-o", &library, &soname, "a.c"]);
        // As wheels have it: an rpath, which comes before LD_LIBRARY_PATH.
        let rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib";
        cc(&["-o", "app", "a.c", rpath, "-Wl,--no-as-needed", &library]);
        let app = root.join("app");
        let app = app.to_str().expect("text");
        let (_, report) = doctor(&[app]);
        let found = of(&report, app);
        assert_eq!(found.len(), 1, "{report:#}");
        let what = found[0]["what"].as_str().expect("text");
        let copy = format!(
            "{kind} of the library is bundled: {}/{library}",
            root.display()
        );
        assert!(what.starts_with(&copy), "{report:#}");
        assert_eq!(found[0]["status"], "warning", "{report:#}");
        assert_eq!(found[0]["remedy"], format!("roce run {app}"));
    }
}

#[test]
fn wrong_usage_is_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["doctor", "--frobnicate"])
        .output()
        .expect("roce starts");
    assert_eq!(output.status.code(), Some(2));
}
