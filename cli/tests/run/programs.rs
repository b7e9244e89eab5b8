//! Unchanged programs of rdma-core, on the library that cargo builds together with these tests.

use super::*;

/// Two addresses of the loopback, in a network of one's own, and two processes at the GIDs of
/// these indices.
const PINGPONG: &str = "
    set -e
    ip link set lo up
    ip address add 10.9.9.1/32 dev lo
    ip address add 10.9.9.2/32 dev lo
    run() { \"$ROCE\" run --library \"$LIBRARY\" --namespace require -- \"$@\"; }
    run timeout 60 ibv_rc_pingpong -d roce_lo -g \"$1\" -n 100 & server=$!
    # Until it listens, at port 18515.
    until grep -q ':4853 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $server; done
    run timeout 60 ibv_rc_pingpong -d roce_lo -g \"$2\" -n 100 127.0.0.1
    wait $server";

/// The library: beside the program of this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("it has a path");
    let built = test.with_file_name("libroce_verbs_shim.so");
    assert!(built.is_file(), "cargo builds {}", built.display());
    built
}

/// Whether all programs are installed. Reports it if one is not.
pub(crate) fn installed(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|name| !testkit::is_installed(name));
    if let Some(program) = missing {
        skip(test, program);
    }
    missing.is_none()
}

/// The output of a program on this stack, without a namespace or in one of its own.
fn output_of(who: Who, namespace: &str, program: &[&str]) -> String {
    let mut command = who.command(ROCE);
    command.args(["run", "--namespace", namespace, "--library"]);
    command.arg(library()).arg("--").args(program);
    said(&command.output().expect("it starts"))
}

#[test]
fn ibv_devices_and_the_files_name_the_same_devices() {
    let test = "ibv_devices_and_the_files_name_the_same_devices";
    if !installed(test, &["ibv_devices"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        let listed = output_of(who, "require", &["ibv_devices"]);
        let script = "cd /sys/class/infiniband; for d in *; do \
            echo $d $(tr -d : < $d/node_guid); done";
        let files = output_of(who, "require", &["sh", "-c", script]);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        // Two lines of titles.
        let mut listed: Vec<_> = listed.lines().skip(2).map(words).collect();
        listed.sort();
        let files: Vec<_> = files.lines().map(words).collect();
        assert_eq!(listed, files, "{who:?}");
        assert!(
            files.iter().any(|device| device[0] == "roce_lo"),
            "{files:?}"
        );
    }
}

/// The library alone is sufficient where namespaces are forbidden. In a namespace, the program also
/// finds the files that it reads from sysfs.
#[test]
fn ibv_devinfo_works_with_and_without_a_namespace() {
    let test = "ibv_devinfo_works_with_and_without_a_namespace";
    if !installed(test, &["ibv_devinfo"]) {
        return;
    }
    let program = ["ibv_devinfo", "-v", "-d", "roce_lo"];
    for who in Who::all() {
        let told = output_of(who, "none", &program);
        assert!(told.contains("PORT_ACTIVE"), "{who:?}: {told}");
        assert!(!told.contains("board_id"), "{who:?}: {told}");
    }
    for who in Who::with_namespaces(test) {
        let told = output_of(who, "require", &program);
        for part in [
            "PORT_ACTIVE",
            "board_id:\t\t\troce",
            "::ffff:127.0.0.1, RoCE v2",
        ] {
            assert!(told.contains(part), "{who:?}: {told}");
        }
    }
}

/// It looks for each device in `/dev/infiniband`.
#[test]
fn ucx_finds_its_transports() {
    let test = "ucx_finds_its_transports";
    if !installed(test, &["ucx_info"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        let told = output_of(who, "require", &["ucx_info", "-d"]);
        for transport in ["rc_verbs", "ud_verbs"] {
            let found = format!("Transport: {transport}\n#         Device: roce_lo:1");
            assert!(told.contains(&found), "{who:?}: {told}");
        }
    }
}

#[test]
fn two_programs_talk_to_each_other() {
    let test = "two_programs_talk_to_each_other";
    if !installed(test, &["ibv_rc_pingpong", "ip", "unshare", "timeout"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        // At an address each, and both at one.
        for gids in [["1", "2"], ["1", "1"]] {
            let output = who
                .command("unshare")
                .args(["--user", "--map-root-user", "--net"])
                .args(["sh", "-c", PINGPONG, "sh"])
                .args(gids)
                .env("ROCE", ROCE)
                .env("LIBRARY", library())
                .output()
                .expect("it starts");
            let told = said(&output);
            let ended = told.matches("100 iters in").count();
            assert_eq!(ended, 2, "{who:?} {gids:?}: {told}");
        }
    }
}
