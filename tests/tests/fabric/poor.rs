//! A machine that lacks something says what.

use crate::running::{User, can_or_skip, is_root_or_skip, with_roce};
use std::process::Command;

/// Runs `roce fabric -- true` where a command of root's has changed the files first.
fn after(change: &str) -> Option<(Option<i32>, String)> {
    if !is_root_or_skip() || !can_or_skip(User::Own) {
        return None;
    }
    let script = format!("{change} && exec \"$ROCE\" fabric -- true");
    let output = with_roce(&mut Command::new("unshare"))
        .args(["--mount", "sh", "-c", &script])
        .output();
    let output = output.expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some((output.status.code(), text))
}

#[test]
fn without_tun_it_says_what_to_do() {
    if let Some((code, text)) = after("mount --bind /dev/null /dev/net/tun") {
        assert_eq!(code, Some(125), "{text}");
        assert!(
            text.contains("a container needs --device /dev/net/tun"),
            "{text}"
        );
    }
}

#[test]
fn without_user_namespaces_it_says_what_to_do() {
    if !can_or_skip(User::Ordinary) {
        return;
    }
    // A user namespace in which there can be no others.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces &&
        exec setpriv --bounding-set -all --inh-caps -all --ambient-caps -all \"$ROCE\" fabric -- true";
    let output = with_roce(&mut Command::new("unshare"))
        .args(["--user", "--map-root-user", "sh", "-euc", script])
        .output();
    let output = output.expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("is user.max_user_namespaces 0"), "{text}");
}

/// As in a container that hides parts of `/proc`: the kernel allows no other one without privilege.
#[test]
fn where_proc_is_hidden_programs_run_and_no_host_can_be_killed() {
    if !is_root_or_skip() || !can_or_skip(User::Ordinary) {
        return;
    }
    let script = "mount -t tmpfs none /proc/fs &&
        exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$ROCE\" fabric -- sh -c '
            $ROCE fabric ssh h2 hostname; $ROCE fabric do h2 cut; $ROCE fabric do h2 kill'";
    let output = with_roce(&mut Command::new("unshare"))
        .args(["--mount", "sh", "-euc", script])
        .env("HOME", "/tmp")
        .output();
    let output = output.expect("unshare runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{errors}");
    assert_eq!(output.stdout, b"h2\n", "{errors}");
    assert!(errors.contains(": h2-s1 down"), "{errors}");
    let refused = "h2 kill: this system allows no /proc of the cluster's own";
    assert!(errors.contains(refused), "{errors}");
}
