//! Injected loss and duplication, and their removal.

use std::net::UdpSocket;

use roce_tests::lab::{Counters, Direction, Drops, GUEST_IP4, GuestStatus, HOST_IP4, Lab};

use crate::option::set_option;

use super::{ROCE, TIMEOUT, count, ping};

#[test]
fn loss_drops_roce_packets_to_the_guest_and_nothing_else() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_loss(Direction::ToGuest, Drops::EveryNth(4))
        .unwrap();
    let capture = lab.capture_start().unwrap();
    send_from_outside(&lab, ROCE, 0x64, 400);
    send_from_outside(&lab, ROCE + 1, 0x64, 50);
    let files = capture.stop().unwrap();
    let counters = lab.loss_counters().unwrap();
    assert_eq!(
        counters.to_guest,
        Counters {
            seen: 400,
            dropped: 100
        }
    );
    assert_eq!(counters.to_host, Counters::default());
    assert_eq!(count(&lab, &files.guest, "udp dst port 4791"), 300);
    assert_eq!(count(&lab, &files.guest, "udp dst port 4792"), 50);

    lab.set_loss(Direction::ToGuest, Drops::PerMille(500))
        .unwrap();
    send_from_outside(&lab, ROCE, 0x64, 400);
    let Counters { seen, dropped } = lab.loss_counters().unwrap().to_guest;
    assert_eq!(seen, 400);
    // Off by 100 from the mean of 200 is ten standard deviations.
    assert!((100..300).contains(&dropped), "{dropped} of 400");

    let early = Drops::EarlyPerMille {
        packets: 400,
        per_mille: 500,
    };
    lab.set_loss(Direction::ToGuest, early).unwrap();
    send_from_outside(&lab, ROCE, 0x64, 400);
    let Counters { dropped, .. } = lab.loss_counters().unwrap().to_guest;
    assert!((100..300).contains(&dropped), "{dropped} of 400");
    send_from_outside(&lab, ROCE, 0x64, 400);
    let expected = Counters { seen: 800, dropped };
    assert_eq!(lab.loss_counters().unwrap().to_guest, expected);

    lab.set_loss(
        Direction::ToGuest,
        Drops::First {
            opcode: 0x11,
            count: 3,
        },
    )
    .unwrap();
    send_from_outside(&lab, ROCE, 0x64, 10);
    send_from_outside(&lab, ROCE, 0x11, 10);
    let expected = Counters {
        seen: 20,
        dropped: 3,
    };
    assert_eq!(lab.loss_counters().unwrap().to_guest, expected);

    lab.set_loss(Direction::ToGuest, Drops::None).unwrap();
    send_from_outside(&lab, ROCE, 0x64, 10);
    let expected = Counters {
        seen: 10,
        dropped: 0,
    };
    assert_eq!(lab.loss_counters().unwrap().to_guest, expected);
}

#[test]
fn loss_drops_roce_packets_to_the_host() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_loss(Direction::ToHost, Drops::EveryNth(10))
        .unwrap();
    let received = lab.enter(|| receive_on_the_host(&lab, 100)).unwrap();
    let counters = lab.loss_counters().unwrap();
    assert_eq!(
        counters.to_host,
        Counters {
            seen: 100,
            dropped: 10
        }
    );
    assert_eq!(counters.to_guest, Counters::default());
    assert_eq!(received, 90);
}

#[test]
fn each_packet_of_a_batch_is_lost_on_its_own() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_loss(Direction::ToGuest, Drops::EveryNth(4))
        .unwrap();
    let capture = lab.capture_start().unwrap();
    let socket = lab
        .enter(|| UdpSocket::bind((HOST_IP4, 0)).unwrap())
        .unwrap();
    set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 100);
    // The kernel gets one datagram and segments it into 20 packets, as late as possible.
    let sent = socket.send_to(&[0xee; 2000], (GUEST_IP4, ROCE)).unwrap();
    assert_eq!(sent, 2000);
    let files = capture.stop().unwrap();
    let expected = Counters {
        seen: 20,
        dropped: 5,
    };
    assert_eq!(lab.loss_counters().unwrap().to_guest, expected);
    for file in [&files.outside, &files.guest] {
        assert_eq!(
            count(&lab, file, "udp dst port 4791 and udp[4:2] == 108"),
            15
        );
    }
}

#[test]
fn wrong_losses_are_refused() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let early = Drops::EarlyPerMille {
        packets: 1,
        per_mille: 1001,
    };
    for drops in [Drops::PerMille(1001), Drops::EveryNth(0), early] {
        let error = lab
            .set_loss(Direction::ToHost, drops)
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!("{drops:?}")), "{error}");
    }
}

#[test]
fn netem_duplicates_in_either_direction() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    lab.set_netem(Direction::ToHost, "duplicate 100%").unwrap();
    assert_eq!(lab.enter(|| receive_on_the_host(&lab, 20)).unwrap(), 40);
    lab.set_netem(Direction::ToHost, "").unwrap();
    assert_eq!(lab.enter(|| receive_on_the_host(&lab, 20)).unwrap(), 20);

    let pings = |expected: bool| {
        let output = ping(&lab, &GUEST_IP4.to_string())
            .args(["-c2", "-i0.1"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.contains("DUP!"), expected, "{text}");
    };
    lab.set_netem(Direction::ToGuest, "duplicate 100%").unwrap();
    pings(true);
    lab.set_netem(Direction::ToGuest, "").unwrap();
    pings(false);
}

#[test]
fn the_next_test_finds_the_lab_as_booted() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let sleeper = lab.guest_spawn(["sleep", "1234"]).unwrap();
    lab.set_mtu(9000).unwrap();
    lab.set_loss(Direction::ToGuest, Drops::PerMille(1000))
        .unwrap();
    let directory = lab.directory().to_owned();
    drop(lab);

    let again = || Lab::get_or_skip().expect("it was there just now");
    let mut others = Vec::new();
    let mut lab = again();
    while lab.directory() != directory {
        others.push(lab);
        lab = again();
    }
    assert_eq!(lab.mtu(), 1500);
    send_from_outside(&lab, ROCE, 0x64, 10);
    let expected = Counters {
        seen: 10,
        dropped: 0,
    };
    assert_eq!(lab.loss_counters().unwrap().to_guest, expected);
    let error = sleeper.wait(TIMEOUT).unwrap_err().to_string();
    assert!(error.contains("killed by a reset"), "{error}");
    let left = lab
        .guest(["pgrep", "-f", "^sleep 1234"])
        .output(TIMEOUT)
        .unwrap();
    assert_eq!(left.status, GuestStatus::Exited(1), "{left:?}");
}

/// Sends datagrams of 64 bytes to the guest, the first byte of which is `opcode`.
/// Their queue pair does not exist in the guest.
fn send_from_outside(lab: &Lab, port: u16, opcode: u8, count: usize) {
    lab.enter(|| {
        let socket = UdpSocket::bind((HOST_IP4, 0)).unwrap();
        let mut datagram = [0_u8; 64];
        datagram[0] = opcode;
        datagram[5..8].fill(0xee);
        for _ in 0..count {
            // No program listens on other ports: the guest answers that, and sends report it.
            let _ = socket.send_to(&datagram, (GUEST_IP4, port));
        }
    })
    .unwrap();
}

/// Makes the guest send `count` datagrams to the RoCE port of the host and then one to another
/// port. Returns the number that arrived.
fn receive_on_the_host(lab: &Lab, count: usize) -> usize {
    let socket = UdpSocket::bind((HOST_IP4, ROCE)).unwrap();
    let end = UdpSocket::bind((HOST_IP4, ROCE + 1)).unwrap();
    end.set_read_timeout(Some(TIMEOUT)).unwrap();
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for i in range({count}): s.sendto(bytes(64), ('{HOST_IP4}', {ROCE}))\n\
         s.sendto(b'end', ('{HOST_IP4}', {}))\n",
        ROCE + 1
    );
    lab.guest(["/usr/bin/python3", "-c", &script])
        .output(TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    // The link keeps the order: this datagram is the last.
    let (_, from) = end.recv_from(&mut [0; 64]).unwrap();
    assert!(from.ip() == GUEST_IP4);
    socket.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| socket.recv_from(&mut [0; 64]).ok()).count()
}
