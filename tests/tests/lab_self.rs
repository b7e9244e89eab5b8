//! The lab tests itself: commands, the link, captures, faults.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use roce_tests::lab::{
    Counters, Direction, Drops, GUEST_INTERFACE, GUEST_IP4, GUEST_LL6, GuestStatus, HOST_INTERFACE,
    HOST_IP4, HOST_LL6, Lab,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// UDP port of RoCEv2.
const ROCE: u16 = 4791;

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
        // A packet of this size crosses the link and comes back, and it is the
        // largest that does so in one piece.
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
        error.contains("in vain") && error.contains("started"),
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
fn wrong_losses_are_refused() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for drops in [Drops::PerMille(1001), Drops::EveryNth(0)] {
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
    drop(lab);

    let lab = Lab::get_or_skip().expect("it was there just now");
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

/// A ping from outside the guest, options to be added.
fn ping(lab: &Lab, address: &str) -> Command {
    let mut command = lab.host_command("busybox");
    command.args(["ping", "-W5", address]);
    command
}

/// A socket to a port of the guest where nobody listens, whose datagrams are sent
/// whole or not at all.
fn unfragmented_socket() -> UdpSocket {
    let socket = UdpSocket::bind((HOST_IP4, 0)).unwrap();
    socket.connect((GUEST_IP4, ROCE)).unwrap();
    let value = libc::IP_PMTUDISC_DO;
    let size = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
    // SAFETY: the option's value is an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw const value).cast(),
            size,
        )
    };
    assert_eq!(result, 0);
    socket
}

/// How many packets of a capture match a filter of pcap-filter(7).
fn count(lab: &Lab, file: &Path, filter: &str) -> usize {
    let output = lab
        .host_command("tcpdump")
        .arg("-nr")
        .arg(file)
        .arg(filter)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout.iter().filter(|&&byte| byte == b'\n').count()
}

/// Sends datagrams of 64 bytes to the guest, the first byte of which is `opcode`.
/// Their queue pair is one that the guest has not.
fn send_from_outside(lab: &Lab, port: u16, opcode: u8, count: usize) {
    lab.enter(|| {
        let socket = UdpSocket::bind((HOST_IP4, 0)).unwrap();
        let mut datagram = [0_u8; 64];
        datagram[0] = opcode;
        datagram[5..8].fill(0xee);
        for _ in 0..count {
            // Nobody listens on other ports, which the guest says, and sends report.
            let _ = socket.send_to(&datagram, (GUEST_IP4, port));
        }
    })
    .unwrap();
}

/// Has the guest send `count` datagrams to the RoCE port of the host and then one to
/// another port; returns how many came.
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
    // The link keeps the order: after this one there is nothing more to come.
    let (_, from) = end.recv_from(&mut [0; 64]).unwrap();
    assert!(from.ip() == GUEST_IP4);
    socket.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| socket.recv_from(&mut [0; 64]).ok()).count()
}
