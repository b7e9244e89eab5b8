//! Tests the program's verdict on frames of every kind. The kernel runs the program
//! (`BPF_PROG_TEST_RUN`).

use std::net::IpAddr;
use std::os::fd::AsFd;

use roce_stack::QpnRange;

use super::{Program, RedirectConfig, Verdict};
use crate::sys::xsk;
use crate::testing::is_root;

const OURS_V4: &str = "10.1.2.3";
const OURS_V6: &str = "2001:db8::7";
/// Shortest frame that the kernel lets a program see.
const SHORTEST: usize = 14;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A program with two addresses, and a socket at queue 0.
fn program(test: &str, roce_v1: bool) -> Option<Program> {
    let config = RedirectConfig {
        roce_v1,
        part: None,
    };
    is_root(test).then(|| loaded(&config))
}

fn loaded(config: &RedirectConfig) -> Program {
    let program = Program::load(2, config).expect("the kernel takes it");
    for ours in [OURS_V4, OURS_V6] {
        program.add_address(address(ours)).expect("room");
    }
    let socket = xsk::socket().expect("AF_XDP");
    program.set_socket(0, socket.as_fd()).expect("a socket");
    // Closing the socket would remove its entry from the map, so leak the socket.
    std::mem::forget(socket);
    program
}

/// The length of the headers before the transport header, in bytes.
fn headers(frame: &Frame) -> usize {
    match frame.bytes[frame.network - 2..frame.network] {
        [0x08, _] => 28,
        [0x86, _] => 48,
        _ => 40,
    }
}

/// A frame, and the offsets of its parts.
#[derive(Clone)]
struct Frame {
    bytes: Vec<u8>,
    /// Offset of the network header.
    network: usize,
}

impl Frame {
    fn new(tags: &[u16], ether_type: u16, network: &[u8]) -> Self {
        let mut bytes = vec![2; 12];
        for tag in tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0x20, 5]);
        }
        bytes.extend(ether_type.to_be_bytes());
        let at = bytes.len();
        bytes.extend(network);
        Self { bytes, network: at }
    }

    /// Changes a byte of the network header, or a byte after it.
    fn with(&self, at: usize, value: u8) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.network + at] = value;
        bytes
    }
}

fn udp(port: u16, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0xc0, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend((8 + payload as u16).to_be_bytes());
    bytes.extend([0; 2]);
    bytes.resize(8 + payload, 0xab);
    bytes
}

fn ipv4(dst: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![
        0x45, 2, 0, 44, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 1, 2, 4,
    ];
    let IpAddr::V4(dst) = address(dst) else {
        panic!("{dst} is an IPv4 address")
    };
    bytes.extend(dst.octets());
    bytes.extend(udp(port, 16));
    bytes
}

fn ipv6(dst: &str, next: u8, port: u16) -> Vec<u8> {
    let mut bytes = vec![0x60, 0x20, 0, 0, 0, 24, next, 64];
    let IpAddr::V6(dst) = address(dst) else {
        panic!("{dst} is an IPv6 address")
    };
    bytes.extend([0xfe; 16]);
    bytes.extend(dst.octets());
    bytes.extend(udp(port, 16));
    bytes
}

/// The GRH of a RoCE v1 frame, and the bytes after it.
fn grh(dst: &str) -> Vec<u8> {
    let mut bytes = ipv6(dst, 0x1b, 0);
    bytes.truncate(40);
    bytes.extend([0; 16]);
    bytes
}

/// All kinds of frames that the program redirects, with and without a tag.
fn ours() -> Vec<Frame> {
    let mut frames = Vec::new();
    for tags in [&[][..], &[0x8100]] {
        frames.push(Frame::new(tags, 0x0800, &ipv4(OURS_V4, 4791)));
        frames.push(Frame::new(tags, 0x86dd, &ipv6(OURS_V6, 17, 4791)));
    }
    frames
}

fn is(program: &Program, frame: &[u8], expected: Verdict, what: &str) {
    let verdict = program.judge(frame).expect("a frame that may be judged");
    assert_eq!(verdict, expected, "{what}: {frame:02x?}");
}

#[test]
fn our_frames_are_redirected() {
    let Some(program) = program("our_frames_are_redirected", false) else {
        return;
    };
    for frame in ours() {
        is(&program, &frame.bytes, Verdict::Redirect, "ours");
        // The first piece decides about frames of several pieces.
        let mut long = frame.bytes.clone();
        long.resize(9000, 0);
        is(&program, &long, Verdict::Redirect, "ours, long");
        // DSCP, ECN and identification do not matter.
        is(
            &program,
            &frame.with(1, 0xff),
            Verdict::Redirect,
            "another traffic class",
        );
    }
}

#[test]
fn frames_to_other_addresses_go_to_the_kernel() {
    let Some(program) = program("frames_to_other_addresses_go_to_the_kernel", false) else {
        return;
    };
    for frame in ours() {
        let v6 = frame.bytes[frame.network] >> 4 == 6;
        let dst = if v6 { 24..40 } else { 16..20 };
        for at in dst {
            let changed = frame.bytes[frame.network + at] ^ 1;
            is(
                &program,
                &frame.with(at, changed),
                Verdict::Pass,
                "another's",
            );
        }
    }
    // Try the same four bytes in an IPv6 address that is not IPv4-mapped.
    let compatible = Frame::new(&[], 0x86dd, &ipv6("::10.1.2.3", 17, 4791));
    is(&program, &compatible.bytes, Verdict::Pass, "not mapped");
    for ours in [OURS_V4, OURS_V6] {
        program.remove_address(address(ours)).expect("it was there");
        program
            .remove_address(address(ours))
            .expect("nothing to do");
    }
    for frame in ours() {
        is(&program, &frame.bytes, Verdict::Pass, "no longer ours");
    }
}

#[test]
fn frames_that_are_not_roce_go_to_the_kernel() {
    let Some(program) = program("frames_that_are_not_roce_go_to_the_kernel", false) else {
        return;
    };
    for frame in ours() {
        let v6 = frame.bytes[frame.network] >> 4 == 6;
        let port = if v6 { 42 } else { 22 };
        is(
            &program,
            &frame.with(port, 0x13),
            Verdict::Pass,
            "another port",
        );
        is(
            &program,
            &frame.with(port + 1, 0xb6),
            Verdict::Pass,
            "another port",
        );
        let protocol = if v6 { 6 } else { 9 };
        // TCP, ICMP, hop-by-hop options, routing, fragment, ESP, AH, ICMPv6, destination options.
        for other in [6, 1, 0, 43, 44, 50, 51, 58, 60] {
            is(
                &program,
                &frame.with(protocol, other),
                Verdict::Pass,
                "another protocol",
            );
        }
        for version in [
            0x00,
            0x55,
            0x44,
            0x46,
            0x4f,
            0x75,
            0xf0,
            if v6 { 0x45 } else { 0x60 },
        ] {
            is(
                &program,
                &frame.with(0, version),
                Verdict::Pass,
                "another version, or options",
            );
        }
        if !v6 {
            for (flags, offset) in [
                (0x20, 0),
                (0x60, 0),
                (0, 1),
                (0x1f, 0),
                (0x3f, 0xff),
                (0x01, 0),
            ] {
                let mut changed = frame.with(6, flags);
                changed[frame.network + 7] = offset;
                is(&program, &changed, Verdict::Pass, "a fragment");
            }
            is(
                &program,
                &frame.with(6, 0),
                Verdict::Redirect,
                "fragments not forbidden",
            );
        }
    }
}

#[test]
fn other_ether_types_go_to_the_kernel() {
    let Some(program) = program("other_ether_types_go_to_the_kernel", false) else {
        return;
    };
    let (v4, v6) = (ipv4(OURS_V4, 4791), ipv6(OURS_V6, 17, 4791));
    for (tags, ether_type, network) in [
        (&[][..], 0x0806, &v4),
        (&[], 0x88cc, &v4),
        (&[], 0x8915, &grh(OURS_V6)),
        (&[], 0x0008, &v4),
        (&[], 0x86dd, &v4),
        (&[], 0x0800, &v6),
        // Two tags, or a service provider's tag (802.1ad).
        (&[0x8100, 0x8100], 0x0800, &v4),
        (&[0x88a8], 0x0800, &v4),
        (&[0x88a8, 0x8100], 0x86dd, &v6),
        (&[0x8100], 0x0806, &v4),
    ] {
        let frame = Frame::new(tags, ether_type, network);
        is(&program, &frame.bytes, Verdict::Pass, "another EtherType");
    }
}

#[test]
fn truncated_frames_go_to_the_kernel() {
    let Some(program) = program("truncated_frames_go_to_the_kernel", true) else {
        return;
    };
    let v1 = Frame::new(&[], 0x8915, &grh(OURS_V6));
    for frame in ours().into_iter().chain([v1]) {
        // The last required byte is the last byte of the UDP header, or of the GRH.
        let whole = headers(&frame);
        for len in SHORTEST..=frame.bytes.len() {
            let expected = if len < frame.network + whole {
                Verdict::Pass
            } else {
                Verdict::Redirect
            };
            is(&program, &frame.bytes[..len], expected, "cut");
        }
    }
}

#[test]
fn roce_v1_is_redirected_if_enabled() {
    let Some(program) = program("roce_v1_is_redirected_if_enabled", true) else {
        return;
    };
    for tags in [&[][..], &[0x8100]] {
        let to_us = Frame::new(tags, 0x8915, &grh(OURS_V6));
        is(&program, &to_us.bytes, Verdict::Redirect, "v1");
        is(&program, &to_us.with(39, 0), Verdict::Pass, "v1 to another");
        // Another version, or another next header.
        for (at, value) in [(0, 0x45), (0, 0x70), (6, 17), (6, 0)] {
            let other = to_us.with(at, value);
            is(&program, &other, Verdict::Pass, "another version or header");
        }
        let mapped = Frame::new(tags, 0x8915, &grh("::ffff:10.1.2.3"));
        is(
            &program,
            &mapped.bytes,
            Verdict::Redirect,
            "v1 to an IPv4 GID",
        );
    }
    // Behind a tag that the program does not parse, or behind two tags.
    for tags in [&[0x88a8][..], &[0x8100, 0x8100]] {
        let other = Frame::new(tags, 0x8915, &grh(OURS_V6));
        is(
            &program,
            &other.bytes,
            Verdict::Pass,
            "tags that are not ours",
        );
    }
    for frame in ours() {
        is(&program, &frame.bytes, Verdict::Redirect, "ours");
    }
}

#[test]
fn packets_for_qps_of_other_processes_go_to_the_kernel() {
    if !is_root("packets_for_qps_of_other_processes_go_to_the_kernel") {
        return;
    }
    let program = loaded(&RedirectConfig {
        roce_v1: true,
        part: QpnRange::new(42),
    });
    let v1 = Frame::new(&[], 0x8915, &grh(OURS_V6));
    for frame in ours().into_iter().chain([v1]) {
        let (pass, redirect) = (Verdict::Pass, Verdict::Redirect);
        let bth = headers(&frame);
        let byte = |first| frame.with(bth + 5, first);
        for first in [0, 1, 42, 83, 86, 0xab, 0xfe] {
            is(&program, &byte(first), pass, "another part");
        }
        for first in [84, 85, 0xff] {
            is(&program, &byte(first), redirect, "our part, or multicast");
            let end = frame.network + bth + 12;
            is(&program, &byte(first)[..end], redirect, "a BTH alone");
            is(&program, &byte(first)[..end - 1], pass, "a BTH that is cut");
        }
        for (qpn, verdict) in [(1, redirect), (0, pass), (0x101, pass), (0x1_0001, pass)] {
            let mut to = frame.clone();
            for (at, byte) in (bth + 5..).zip(&u32::to_be_bytes(qpn)[1..]) {
                to.bytes = to.with(at, *byte);
            }
            // The congestion bits share a word with the QPN, and have no effect.
            let bytes = to.with(bth + 4, 0xff);
            is(
                &program,
                &bytes,
                verdict,
                "of the numbers around it, QP1 alone",
            );
        }
    }
}

#[test]
fn replies_to_other_processes_go_to_the_kernel() {
    if !is_root("replies_to_other_processes_go_to_the_kernel") {
        return;
    }
    let program = loaded(&RedirectConfig {
        roce_v1: true,
        part: QpnRange::new(42),
    });
    let v1 = Frame::new(&[], 0x8915, &grh(OURS_V6));
    for frame in ours().into_iter().chain([v1]) {
        let bth = frame.network + headers(&frame);
        let mad = |class, attribute: u16, request_id, remote_id| {
            let mut bytes = frame.bytes.clone();
            bytes.resize(bth + 60, 0);
            bytes[bth + 5..bth + 8].copy_from_slice(&[0, 0, 1]);
            bytes[bth + 21] = class;
            bytes[bth + 36..bth + 38].copy_from_slice(&attribute.to_be_bytes());
            (bytes[bth + 44], bytes[bth + 48]) = (request_id, remote_id);
            bytes
        };
        let (pass, redirect) = (Verdict::Pass, Verdict::Redirect);
        for own in [84, 85] {
            is(&program, &mad(7, 0x13, 0, own), redirect, "to our request");
            is(&program, &mad(7, 0x18, own, 0), redirect, "to our lookup");
            is(
                &program,
                &mad(7, 0x13, own, 0),
                pass,
                "to another's request",
            );
            is(&program, &mad(7, 0x18, 0, own), pass, "to another's lookup");
        }
        for request in [0x10, 0x17] {
            is(&program, &mad(7, request, 0, 0), redirect, "a request");
        }
        is(&program, &mad(3, 0x13, 0, 0), redirect, "another class");
        let cut = &mad(7, 0x13, 0, 0)[..bth + 48];
        is(&program, cut, redirect, "an answer that is cut");
    }
}

#[test]
fn without_a_socket_all_frames_go_to_the_kernel() {
    if !is_root("without_a_socket_all_frames_go_to_the_kernel") {
        return;
    }
    let program = Program::load(1, &RedirectConfig::default()).expect("the kernel takes it");
    program.add_address(address(OURS_V4)).expect("room");
    is(&program, &ours()[0].bytes, Verdict::Pass, "no socket");
}

#[test]
fn random_bytes_go_to_the_kernel() {
    let Some(program) = program("random_bytes_go_to_the_kernel", true) else {
        return;
    };
    let mut state = 4791_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for round in 0..2000 {
        let bytes: Vec<u8> = (0..SHORTEST + round % 80).map(|_| next()).collect();
        is(&program, &bytes, Verdict::Pass, "nonsense");
    }
}
