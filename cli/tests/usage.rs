//! The messages of `roce perf` about arguments that don't fit the machine, in a network namespace of
//! their own.

use std::process::{Command, Output};

/// Runs a shell script whose `roce` is the command, with the loopback up, or reports loudly that it
/// can't.
fn in_namespace(script: &str) -> Option<Output> {
    if !testkit::network_namespace_or_skip() {
        return None;
    }
    let roce = env!("CARGO_BIN_EXE_roce");
    let script = format!("set -e; ip link set lo up; roce() {{ '{roce}' \"$@\"; }}; {script}");
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .output();
    Some(output.expect("unshare starts"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_path_mtu_that_the_link_does_not_carry_is_wrong_usage() {
    let script = "ip link set lo mtu 1500; roce perf -m 4096 --op send --size 8";
    let Some(output) = in_namespace(script) else {
        return;
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--mtu is 4096") && said.contains("--mtu 1024 or less"),
        "{said}"
    );
}

/// A regression test: the smaller path MTU used to be taken silently.
#[test]
fn a_path_mtu_that_the_server_does_not_take_is_wrong_usage() {
    let script = "mkfifo \"$DIR/up\"; roce perf --server 127.0.0.1 --once -m 1024 >\"$DIR/up\" 2>&1 & \
                  read line <\"$DIR/up\"; roce perf 127.0.0.1 -m 4096 --op send --size 8";
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("DIR='{}'; {script}", folder.path().display());
    let Some(output) = in_namespace(&script) else {
        return;
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--mtu is 4096") && said.contains("allows 1024"),
        "{said}"
    );
}

#[test]
fn a_gid_index_that_is_not_there_is_wrong_usage() {
    let Some(output) = in_namespace("roce perf -g 77 --op send --size 8") else {
        return;
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--gid-index is 77") && said.contains("there are: 0 ("),
        "{said}"
    );
}

#[test]
fn a_server_may_name_the_interface_of_a_link_local_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "ip link add v0 type veth peer name v1; ip address add fe80::5/64 dev v0 nodad; \
         ip link set v0 up; ip link set v1 up; mkfifo '{0}/up'; \
         for address in fe80::5%v0 fe80::5; do \
           roce perf --server $address --once >'{0}/up' & read line <'{0}/up'; echo \"$line\"; \
           roce perf fe80::5%v0 --op send --size 8 -n 10 --duration 5; wait; \
         done",
        folder.path().display()
    );
    let Some(output) = in_namespace(&script) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert_eq!(
        text.matches("listening on fe80::5 port").count(),
        2,
        "{text}"
    );
    assert_eq!(
        text.matches("every byte compared was right").count(),
        2,
        "{text}"
    );
}
