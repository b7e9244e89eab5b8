//! A machine that lacks something says what.

use crate::running::{User, can_or_skip, is_root_or_skip, with_roce};
use roce_tests::programs::roce;
use std::io;
use std::os::unix::process::CommandExt;
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

/// The system calls of a fabric's set-up that containers forbid by a filter.
const FILTERED: [(&str, libc::c_long); 4] = [
    ("make namespaces", libc::SYS_unshare),
    ("make mounts private", libc::SYS_mount),
    ("set its name", libc::SYS_sethostname),
    ("make its files", libc::SYS_umount2),
];

/// As in a container whose default profile forbids some of what a fabric needs.
#[test]
fn under_a_filter_of_system_calls_it_says_what_the_container_needs() {
    if !is_root_or_skip() || !can_or_skip(User::Own) {
        return;
    }
    for (what, call) in FILTERED {
        let mut command = Command::new(roce());
        with_roce(&mut command).args(["fabric", "--", "true"]);
        // SAFETY: between fork and exec, it makes nothing but two system calls.
        unsafe { command.pre_exec(move || forbid(call)) };
        let output = command.output().expect("roce runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{what}: {text}");
        // Without the right to make namespaces, it tries a user namespace.
        let what = what.replace("make namespaces", "make a user namespace");
        assert!(text.contains(&what), "{what}: {text}");
        let advice = "--security-opt seccomp=unconfined --device /dev/net/tun";
        assert!(text.contains(advice), "{what}: {text}");
    }
}

/// Makes this process's calls with this number fail with EPERM, and all others as before.
fn forbid(call: libc::c_long) -> io::Result<()> {
    let step = |code: u32, jump_if_equal: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_if_equal,
        jf: 0,
        k,
    };
    let mut steps = [
        // The number is the first field of what the filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the kernel reads a program of this length, which lives until the call returns.
    let result = unsafe {
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
            failed => failed,
        }
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
