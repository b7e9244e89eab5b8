//! A machine that lacks something says what.

use crate::running::{User, can_or_skip};
use roce_tests::programs::roce;
use std::process::Command;

/// Runs `roce fabric -- true` where a command of root's has changed the files first.
fn after(change: &str) -> Option<(Option<i32>, String)> {
    // SAFETY: it has no arguments and no effect.
    let is_root = unsafe { libc::geteuid() == 0 };
    if !can_or_skip(User::Own) || !is_root {
        // Only root can change the files; the same test runs as root, too.
        return None;
    }
    let script = format!("{change} && exec {} fabric -- true", roce().display());
    let output = Command::new("unshare")
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
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-euc", script])
        .env("ROCE", roce())
        .output();
    let output = output.expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("is user.max_user_namespaces 0"), "{text}");
}
