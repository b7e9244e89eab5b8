//! rdma-core's pingpongs on this library and on the kernel's Soft-RoCE in the guest, in both roles, with
//! every size and path MTU. They check the data; the decoding of captured packets is compared with tshark.

use roce_tests::decode::assert_decode_agrees;
use roce_tests::lab::{Lab, SharedLab};
use roce_tests::peer::GidIndex;
use roce_tests::programs::{self, is_installed_or_skip};

use crate::programs::run::{Run, Server};

/// Message sizes, and the number of rounds of each.
const SIZES: [(usize, usize); 3] = [(1, 1000), (4096, 1000), (1 << 20, 100)];

/// Rounds of a run whose packets are captured at both ends.
const CAPTURED_ROUNDS: usize = 2;

/// Rounds of the unreliable services: a run ends with the first lost packet, so long runs show no
/// more than short ones.
const UNRELIABLE_ROUNDS: usize = 100;

/// Calls `test` with a lab, if it and the pingpongs can be had.
fn with_lab(test: impl Fn(&SharedLab)) {
    if is_installed_or_skip("ibv_rc_pingpong") {
        Lab::try_with(test);
    }
}

/// Runs a pingpong with these arguments in both roles, with messages of `size` bytes.
fn play(lab: &Lab, program_and_options: &str, size: usize, rounds: usize) {
    // Polling would occupy the processors that emulate the guest.
    let wait = if size > 1 << 16 { " -e" } else { "" };
    let library = programs::library();
    let run = Run {
        lab,
        library: library.path(),
        combination: &format!("{program_and_options} -c -n {rounds} -s {size}{wait}"),
    };
    for server in [Server::Theirs, Server::Ours] {
        let said = run.with_us(server).unwrap_or_else(|failure| {
            panic!("{}, server {server:?}: {failure}", run.combination);
        });
        let bytes = format!("{} bytes in", size * rounds * 2);
        let iterations = format!("{rounds} iters in");
        assert!(
            said.contains(&bytes) && said.contains(&iterations),
            "{said}"
        );
    }
}

/// Each size in both roles: all rounds, then a few that are captured at both ends.
fn play_all(link_mtu: u32, path_mtu: usize, gid: GidIndex) {
    with_lab(|lab| play_all_in(lab, link_mtu, path_mtu, gid));
}

fn play_all_in(lab: &Lab, link_mtu: u32, path_mtu: usize, gid: GidIndex) {
    lab.set_mtu(link_mtu).expect("an MTU");
    let program = format!("ibv_rc_pingpong -g {} -m {path_mtu}", gid as u8);
    for (size, rounds) in SIZES {
        play(lab, &program, size, rounds);
    }
    let capture = lab.capture_start().expect("captures");
    for (size, _) in SIZES {
        play(lab, &program, size, CAPTURED_ROUNDS);
    }
    let files = capture.stop().expect("captured");
    // The minimum: the packets of each message, and an acknowledgement.
    let least: usize = SIZES
        .map(|(size, _)| size.div_ceil(path_mtu) + 1)
        .iter()
        .sum();
    for file in [&files.outside, &files.guest] {
        let packets = assert_decode_agrees(file);
        let expected = least * 4 * CAPTURED_ROUNDS;
        assert!(
            packets >= expected,
            "{}: {packets} packets, at least {expected} were sent",
            file.display()
        );
    }
}

#[test]
fn ip4_at_link_mtu_1500() {
    play_all(1500, 1024, GidIndex::Ip4);
}

#[test]
fn link_local_at_link_mtu_1500() {
    play_all(1500, 1024, GidIndex::LinkLocal6);
}

#[test]
fn ip4_at_link_mtu_9000() {
    play_all(9000, 4096, GidIndex::Ip4);
}

#[test]
fn link_local_at_link_mtu_9000() {
    play_all(9000, 4096, GidIndex::LinkLocal6);
}

/// UC and UD in both roles: a message of one byte and the longest of one packet, and
/// with UC one of several packets. The decoding of the packets is compared with tshark.
#[test]
fn unreliable_services_at_link_mtu_1500() {
    with_lab(|lab| play_unreliable(lab));
}

fn play_unreliable(lab: &Lab) {
    lab.set_mtu(1500).expect("an MTU");
    let capture = lab.capture_start().expect("captures");
    for (program, sizes) in [
        ("ibv_uc_pingpong -g 1 -m 1024", [1, 4096]),
        ("ibv_ud_pingpong -g 1", [1, 1024]),
    ] {
        for size in sizes {
            play(lab, program, size, UNRELIABLE_ROUNDS);
        }
    }
    let files = capture.stop().expect("captured");
    // Messages of 1, 4, 1 and 1 packets, both ways, in both roles.
    let least = (1 + 4 + 1 + 1) * 2 * 2 * UNRELIABLE_ROUNDS;
    for file in [&files.outside, &files.guest] {
        assert!(assert_decode_agrees(file) >= least);
    }
}
