//! Commands in the guest, and code inside the namespace.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use roce_tests::lab::{GUEST_IP4, GuestStatus, HOST_INTERFACE, HOST_IP4, Lab};

use super::{ROCE, TIMEOUT};

#[test]
fn commands_have_input_output_status_and_an_end() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let output = lab
        .guest(["sh", "-c", "cat; echo $WORD >&2; exit 3"])
        .env("WORD", "oops")
        .stdin(b"hello")
        .output(TIMEOUT)
        .unwrap();
    assert_eq!(output.stdout, b"hello");
    assert_eq!(output.stderr, b"oops\n");
    assert_eq!(output.status, GuestStatus::Exited(3));
    let error = output.success().unwrap_err().to_string();
    assert!(error.contains("hello") && error.contains("oops"), "{error}");

    let killed = lab
        .guest(["sh", "-c", "kill -TERM $$"])
        .output(TIMEOUT)
        .unwrap();
    assert_eq!(killed.status, GuestStatus::Killed(libc::SIGTERM));

    let error = lab
        .guest(["/no/such/program"])
        .output(TIMEOUT)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/no/such/program") && error.contains("No such file"),
        "{error}"
    );

    let error = lab
        .guest(["sh", "-c", "echo started; sleep 1000"])
        .output(Duration::from_secs(2))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("timed out") && error.contains("started"),
        "{error}"
    );
}

#[test]
fn a_megabyte_goes_through_a_command_unchanged() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let bytes: Vec<u8> = (0..1_000_003_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    lab.guest_write_file("/tmp/folder/file", &bytes).unwrap();
    assert!(lab.guest_read_file("/tmp/folder/file").unwrap() == bytes);
}

#[test]
fn commands_run_side_by_side() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut first = lab.guest_spawn(["cat"]).unwrap();
    let mut second = lab.guest_spawn(["cat"]).unwrap();
    for round in 0..5 {
        for (name, child) in [("first", &mut first), ("second", &mut second)] {
            let line = format!("{name} {round}");
            child.write(format!("before\n{line}\n").as_bytes()).unwrap();
            assert_eq!(child.wait_for_line(name, TIMEOUT).unwrap(), line);
        }
    }
    first.close_stdin().unwrap();
    assert_eq!(first.wait(TIMEOUT).unwrap().status, GuestStatus::Exited(0));
    let killed = second.kill().unwrap();
    assert_eq!(killed.status, GuestStatus::Killed(libc::SIGKILL));
    assert_eq!(killed.stdout.iter().filter(|&&b| b == b'\n').count(), 10);
}

#[test]
fn code_of_a_test_runs_inside_the_namespace() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let local = lab
        .enter(|| {
            let socket = UdpSocket::bind((HOST_IP4, 0)).unwrap();
            socket.connect((GUEST_IP4, ROCE)).unwrap();
            assert!(Path::new("/sys/class/net").join(HOST_INTERFACE).exists());
            socket.local_addr().unwrap()
        })
        .unwrap();
    assert_eq!(local.ip(), HOST_IP4);
    assert!(
        UdpSocket::bind((HOST_IP4, 0)).is_err(),
        "the address has leaked out"
    );
    assert!(!Path::new("/sys/class/net").join(HOST_INTERFACE).exists());
}
