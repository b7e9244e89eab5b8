//! What programs ask of a fabric, and what happens to hosts.

use crate::running::{User, can_or_skip, command, is_root_or_skip, run, with_roce};
use roce_tests::programs::{is_installed_or_skip, roce};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// An unprivileged user. Its ID is not 65534, which a user namespace shows for all users that it does
/// not map.
const SOMEBODY: u32 = 65533;

#[test]
fn a_command_on_another_host_has_its_name_its_address_and_its_exit_code() {
    let script = "
        $ROCE fabric ssh h3 'hostname; cat; ls /sys/class/net; exit 7' <<< input || echo code $?
        getent hosts h2
        $ROCE fabric ssh h3 'cat /etc/hostname; ls /sys/class/infiniband'
        $ROCE fabric ssh h9 true || echo code $?
        exit 3";
    let script = script.replace("<<< input", "< /etc/hostname");
    let Some(ran) = run(User::Ordinary, &["--hosts", "3"], &script) else {
        return;
    };
    ran.ends_with(3).says("h3\nh1\neth0\nlo\ncode 7\n");
    ran.says("10.0.0.2").says("h3\nroce_eth0\n");
    ran.says("there is no host \"h9\"; there are: h1, h2, h3");
    ran.says("code 125");
}

/// The program always has requests on the way, so that the transport notices at once.
#[test]
fn a_host_that_is_cut_off_is_missed_by_its_peer() {
    if !is_installed_or_skip("ib_write_bw") {
        return;
    }
    let script = "
        write='ib_write_bw -F -d roce_eth0 -x 1 -D 60 -p 19021'
        $ROCE fabric ssh h2 $write &
        until $ROCE fabric ssh h2 'cat /proc/net/tcp /proc/net/tcp6 | grep -q :4A4D'; do :; done
        $write h2 & program=$!
        seen() { $ROCE fabric top --once | grep -q \"$1\"; }
        until seen '^h2 .*[0-9]M'; do :; done
        for host in h1 h2; do until seen \"^$host .* QPs: 1$\"; do :; done; done
        $ROCE fabric do h2-s1 down
        wait $program || echo program $?
        $ROCE fabric do h2 kill
        $ROCE fabric do h2-s1 up";
    let Some(ran) = run(User::Ordinary, &["--hosts", "2"], script) else {
        return;
    };
    ran.ends_with(0);
    ran.says("Failed status 12").says("program 1");
    ran.says(": h2-s1 down\n").says(": h2 kill\n");
}

#[test]
fn a_frozen_host_goes_on_and_a_killed_one_does_not() {
    if !is_installed_or_skip("ps") {
        return;
    }
    let script = "
        state() { $ROCE fabric ssh h2 \"ps -o stat= -C tail\"; }
        $ROCE fabric ssh h2 'tail -f /dev/null' & program=$!
        until state; do :; done
        $ROCE fabric do h2 freeze
        echo frozen: $(state)
        $ROCE fabric do h2 thaw
        echo thawed: $(state)
        $ROCE fabric do h2 kill
        wait $program || echo code $?";
    let Some(ran) = run(User::Ordinary, &["--hosts", "2"], script) else {
        return;
    };
    ran.ends_with(0).says("frozen: T").says("thawed: S");
    ran.says("code 137");
}

#[test]
fn events_come_at_their_times() {
    let options = ["--event", "1ms h2 cut", "--event", "0s h2-s1 rate=5M"];
    // The program ends when both have come.
    let script = "until $ROCE fabric top --once | grep -q 'h2-s1 down'; do :; done";
    let Some(ran) = run(User::Ordinary, &options, script) else {
        return;
    };
    let text = &ran.ends_with(0).text;
    let first = text.find("h2-s1 rate=5M").expect("the first");
    assert!(
        text.find("h2-s1 down").is_some_and(|at| at > first),
        "{text}"
    );
}

#[test]
fn wrong_arguments_are_named() {
    let cases = [
        (["--rate", "fast"], "\"fast\" should be a rate such as 200M"),
        (
            ["--event", "2s h7 cut"],
            "\"h7\" should be a host or switch (h1, h2, s1)",
        ),
        (["--event", "h1 cut"], "should be a time such as 10us"),
        (
            ["--ecn", "80K:20K:10%"],
            "KMIN should not be more than KMAX",
        ),
        (["--network", "/nonexistent"], "/nonexistent: No such file"),
    ];
    for (options, error) in cases {
        let output = command(User::Own, &options, "true").output();
        let output = output.expect("roce runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(error), "{options:?}: {text}");
    }
}

/// Otherwise somebody could give a socket the name of a fabric, and get the input and output of
/// those who ask it.
#[test]
fn the_fabric_of_another_user_is_not_asked() {
    if !is_root_or_skip() || !can_or_skip(User::Ordinary) {
        return;
    }
    let mut cluster = command(User::Ordinary, &[], "echo ready; exec cat");
    let mut cluster = cluster
        .uid(SOMEBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("roce starts");
    let mut line = String::new();
    let output = cluster.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let pid = cluster.id().to_string();
    let asked = Command::new(roce())
        .args(["fabric", "ssh", "--fabric", &pid, "h1", "true"])
        .output();
    let asked = asked.expect("roce runs");
    drop(cluster.stdin.take());
    let ended = cluster.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
    let text = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(125), "{text}");
    assert!(text.contains("belongs to user 65533"), "{text}");
}

/// Another user can take the name by which requests from outside come, and keeps no one from a
/// cluster by that.
#[test]
fn a_name_that_is_taken_does_not_matter() {
    if !is_installed_or_skip("python3") || !can_or_skip(User::Own) {
        return;
    }
    let squat = "
import os, socket, sys
taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
taken.bind('\\0roce-fabric-%d' % os.getpid())
taken.set_inheritable(True)
os.execv(sys.argv[1], [sys.argv[1], 'fabric', '--', 'hostname'])";
    let output = with_roce(&mut Command::new("python3"))
        .args(["-c", squat])
        .arg(roce())
        .output();
    let output = output.expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(output.stdout, b"h1\n", "{text}");
    assert!(
        text.contains("no requests from outside of the cluster"),
        "{text}"
    );
}
