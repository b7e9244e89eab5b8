//! The guest, its link, and captures of it.

use std::cell::Cell;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};

use roce_tests::lab::{
    GUEST_INTERFACE, GUEST_IP4, GUEST_LL6, HOST_INTERFACE, HOST_IP4, HOST_LL6, Lab,
};

use super::{ROCE, TIMEOUT, count, ping};
use crate::option::set_option;

#[test]
fn the_guest_has_an_rxe_device_with_both_gids() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let output = lab
        .guest(["ibv_devinfo", "-v"])
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    let text = output.stdout_text();
    for expected in [
        "rxe0",
        "PORT_ACTIVE",
        &GUEST_LL6.to_string(),
        &format!("::ffff:{GUEST_IP4}"),
    ] {
        assert!(text.contains(expected), "no {expected} in {text}");
    }
}

#[test]
fn the_path_mtu_follows_the_link_mtu() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for (link, path) in [(9000, "4096 (5)"), (1500, "1024 (3)")] {
        lab.set_mtu(link).unwrap();
        assert_eq!(lab.mtu(), link);
        let output = lab
            .guest(["ibv_devinfo"])
            .output(TIMEOUT)
            .unwrap()
            .success()
            .unwrap();
        let text = output.stdout_text();
        let active = text
            .lines()
            .find(|line| line.contains("active_mtu"))
            .unwrap();
        assert!(active.ends_with(path), "{active}");
        // A packet of this size crosses the link and returns, and it is the largest that does so
        // unfragmented.
        let payload = link - 28;
        let mut ping = ping(&lab, &GUEST_IP4.to_string());
        let output = ping
            .args(["-c1", "-s", &payload.to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        lab.enter(|| {
            let socket = unfragmented_socket();
            let datagram = vec![0; payload as usize + 1];
            assert_eq!(socket.send(&datagram[1..]).unwrap(), payload as usize);
            let error = socket.send(&datagram).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        })
        .unwrap();
    }
    let error = lab.set_mtu(9001).unwrap_err().to_string();
    assert_eq!(error, "MTU 9001 is not in 1280 to 9000 bytes");
}

#[test]
fn both_sides_reach_each_other_at_all_addresses() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for address in [
        GUEST_IP4.to_string(),
        format!("{GUEST_LL6}%{HOST_INTERFACE}"),
    ] {
        let output = ping(&lab, &address).arg("-c1").output().unwrap();
        assert!(output.status.success(), "{address}: {output:?}");
    }
    for address in [
        HOST_IP4.to_string(),
        format!("{HOST_LL6}%{GUEST_INTERFACE}"),
    ] {
        lab.guest(["busybox", "ping", "-c1", "-W5", &address])
            .output(TIMEOUT)
            .unwrap()
            .success()
            .unwrap();
    }
}

#[test]
fn rxe_moves_data_between_two_processes_of_the_guest() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let base = ["ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "100"];
    let server = lab.guest_spawn(base).unwrap();
    // The server listens on port 18515, 0x4853; state 0A is LISTEN.
    let listening = "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done";
    lab.guest(["sh", "-c", listening])
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    let client = lab
        .guest(base)
        .arg("localhost")
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    let server = server.wait(TIMEOUT).unwrap().success().unwrap();
    for output in [client, server] {
        assert!(output.stdout_text().contains("100 iters"), "{output:?}");
    }
}

#[test]
fn captures_hold_what_passed_and_nothing_of_the_lab() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let capture = lab.capture_start().unwrap();
    for _ in 0..2 {
        let mut ping = ping(&lab, &GUEST_IP4.to_string());
        let output = ping.args(["-c5", "-i0.01", "-s1000"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let files = capture.stop().unwrap();
    for file in [&files.outside, &files.guest] {
        assert_eq!(
            count(&lab, file, "icmp[0] == 8 and ip[2:2] == 1028"),
            10,
            "{file:?}"
        );
        assert_eq!(
            count(&lab, file, "icmp[0] == 0 and ip[2:2] == 1028"),
            10,
            "{file:?}"
        );
        assert_eq!(count(&lab, file, "udp or icmp[0] == 3"), 0, "{file:?}");
    }
}

/// A socket to a port of the guest without a listener, whose datagrams are never fragmented.
fn unfragmented_socket() -> UdpSocket {
    let socket = UdpSocket::bind((HOST_IP4, 0)).unwrap();
    socket.connect((GUEST_IP4, ROCE)).unwrap();
    let never = libc::IP_PMTUDISC_DO;
    set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, never);
    socket
}

/// A test that fails without a link gets a second attempt with a new guest, and one that fails with a
/// link does not. The guest without a link is not used again.
#[test]
fn a_guest_without_a_link_is_replaced() {
    let attempts = Cell::new(0);
    Lab::try_with(|lab| {
        attempts.set(attempts.get() + 1);
        if attempts.get() == 1 {
            assert!(lab.link_is_alive());
            unplug(lab);
        }
        assert!(lab.link_is_alive(), "the first attempt fails");
    });
    if attempts.get() == 0 {
        return;
    }
    assert_eq!(attempts.get(), 2);

    let attempts = Cell::new(0);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        Lab::try_with(|_| {
            attempts.set(attempts.get() + 1);
            panic!("a failure with a link");
        });
    }));
    assert!(failed.is_err());
    assert_eq!(attempts.get(), 1);

    let lab = Lab::get_or_skip().expect("as before");
    unplug(&lab);
    drop(lab);
    assert!(Lab::get_or_skip().expect("as before").link_is_alive());
}

/// Pulls the guest's end of the cable.
fn unplug(lab: &Lab) {
    let down = lab.guest(["ip", "link", "set", GUEST_INTERFACE, "down"]);
    down.output(TIMEOUT).unwrap().success().unwrap();
}
