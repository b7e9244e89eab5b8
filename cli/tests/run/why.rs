//! `roce why`, with an unchanged program of rdma-core that is set up wrong.

use super::programs::{installed, library};
use super::*;

/// A server whose receives have 1,024 bytes, and a client that sends 2,000. Each end is explained
/// in a file of its own.
const TOO_LONG: &str = "
    ip link set lo up
    why() { \"$ROCE\" why --library \"$LIBRARY\" -- timeout 60 ibv_rc_pingpong -d roce_lo -g 1 \"$@\" > /dev/null; }
    why -s 1024 2> \"$OUT/server\" & server=$!
    # Until it listens, at port 18515.
    until grep -q ':4853 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $server || exit 99; done
    why -s 2000 127.0.0.1 2> \"$OUT/client\"
    echo client $?
    wait $server
    echo server $?";

#[test]
fn messages_longer_than_their_receives_are_explained_at_both_ends() {
    let test = "messages_longer_than_their_receives_are_explained_at_both_ends";
    if !installed(test, &["ibv_rc_pingpong", "ip", "unshare", "timeout"]) {
        return;
    }
    for who in Who::with_namespaces(test) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("allowed");
        let output = who
            .command("unshare")
            .args(["--user", "--map-root-user", "--net"])
            .args(["sh", "-c", TOO_LONG])
            .env("ROCE", ROCE)
            .env("LIBRARY", library())
            .env("OUT", folder.path())
            .output()
            .expect("it starts");
        // The exit codes are the program's own.
        assert_eq!(text(&output.stdout), "client 1\nserver 1\n", "{output:?}");
        let told = |end: &str| fs::read_to_string(folder.path().join(end)).expect("written");
        let (server, client) = (told("server"), told("client"));
        let long =
            "the peer's message has at least 2000 bytes, but the receive request has 1024 bytes";
        assert!(server.contains(long), "{who:?}: {server}");
        assert!(
            server.contains("failed: IBV_WC_LOC_LEN_ERR\n"),
            "{who:?}: {server}"
        );
        assert!(
            client.contains("failed: IBV_WC_REM_INV_REQ_ERR\n"),
            "{who:?}: {client}"
        );
        assert!(
            client.contains("the message is longer than the receive"),
            "{who:?}: {client}"
        );
    }
}

/// Runs `waits` until it waits, then ends it. Another host has an address on v0's network, in the sense that
/// nobody answers.
const WAITS: &str = "
    ip link set lo up
    ip link add v0 type veth peer name v1
    ip address add 10.5.0.1/24 dev v0
    ip link set v1 up
    ip link set v0 up
    : > \"$OUT/pid\"
    \"$ROCE\" why --library \"$LIBRARY\" -- \"$OUT/waits\" \"$@\" > \"$OUT/pid\" 2> \"$OUT/report\" & why=$!
    until pid=$(cat \"$OUT/pid\") && [ -n \"$pid\" ]; do kill -0 $why || exit 98; done
    until \"$ROCE\" why --pid $pid 2> /dev/null | grep waits; do kill -0 $why || exit 99; done
    kill $why
    wait $why";

/// Why a program hangs that waits for itself, or for a peer that does not answer.
#[test]
fn a_program_that_waits_in_vain_is_told_for_what() {
    let test = "a_program_that_waits_in_vain_is_told_for_what";
    let programs = ["gcc", "ip", "unshare"];
    if !installed(test, &programs) || !Path::new("/usr/include/rdma/rdma_cma.h").exists() {
        return skip(test, "no gcc, or no headers: install librdmacm-dev");
    }
    for who in Who::with_namespaces(test) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("allowed");
        super::ways::build(folder.path(), "waits", &["-libverbs", "-lrdmacm"]);
        let waits = |arguments: &[&str]| {
            let output = who
                .command("unshare")
                .args(["--user", "--map-root-user", "--net"])
                .args(["sh", "-c", WAITS, "sh"])
                .args(arguments)
                .env("ROCE", ROCE)
                .env("LIBRARY", library())
                .env("OUT", folder.path())
                .output()
                .expect("it starts");
            let report = fs::read_to_string(folder.path().join("report")).expect("written");
            let looked = text(&output.stdout);
            for part in ["roce why: no QP failed, but this waited:", looked.trim()] {
                assert!(report.contains(part), "{who:?}: {output:?} {report}");
            }
            report
        };
        let told = waits(&["destroy"]);
        let event = "rdma_destroy_id waits until the program has acknowledged 1 of the object's events: \
                     RDMA_CM_EVENT_ADDR_RESOLVED";
        assert!(told.contains(event), "{who:?}: {told}");
        let told = waits(&["connect", "10.5.0.2"]);
        let request =
            "the connection to port 7471 of 10.5.0.2 waits for the peer's answer to its REQ";
        assert!(told.contains(request), "{who:?}: {told}");
    }
}

/// Of a program whose QPs do not fail.
#[test]
fn a_program_without_failures_is_told_so() {
    let output = Command::new(ROCE)
        .args(["why", "--library"])
        .arg(library())
        .args(["--", "true"])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("roce why: no QP failed"), "{told}");
}

#[test]
fn a_code_is_explained() {
    let explained = |code: &str| {
        let mut command = Command::new(ROCE);
        command.args(["why", code]).output().expect("it starts")
    };
    let told = said(&explained("0x414"));
    let first = "0x414: the peer was denied access to memory: the bytes do not lie in the region";
    assert!(told.starts_with(first), "{told}");
    assert_eq!(told.lines().next(), said(&explained("1044")).lines().next());
    let wrong = explained("0x999");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let told = text(&wrong.stderr);
    assert!(told.contains("no failure has the code 0x999"), "{told}");
}

/// docs/diagnose.md lists all codes, as `roce why list` does.
#[test]
fn the_page_has_all_codes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/diagnose.md");
    let page = fs::read_to_string(page).expect("it is there");
    let list = Command::new(ROCE)
        .args(["why", "list"])
        .output()
        .expect("it starts");
    for line in said(&list).lines() {
        let words: Vec<&str> = line.split("  ").map(str::trim).collect();
        let mut columns = words.into_iter().filter(|text| !text.is_empty());
        let code = columns.next().expect("a code");
        let meaning = columns.next_back().expect("a meaning");
        let event = columns
            .next()
            .map_or(String::new(), |event| format!("`{event}`"));
        let row = format!("| `{code}` | {event} | {meaning} |");
        assert!(page.contains(&row), "{row}");
    }
}
