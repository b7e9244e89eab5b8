//! Packets in what switches mirror with, and in other tunnels: the same packet in each.

use super::{Capture, ENVELOPES, Opcode, packet};
use roce_tests::decode::decode;
use roce_tests::programs;
use std::process::Command;

/// A frame that carries `rest` in IPv4.
fn in_ipv4(protocol: u8, head: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + head.len() + rest.len()).expect("a short packet");
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    [&frame, head, rest].concat()
}

/// A header of UDP, and the tunnel's.
fn in_udp(port: u16, head: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + head.len() + rest.len()).expect("a short packet");
    let mut udp = vec![0xd0, 0];
    udp.extend(port.to_be_bytes());
    udp.extend(length.to_be_bytes());
    udp.extend([0, 0]);
    in_ipv4(17, &[&udp, head].concat(), rest)
}

fn in_gre(head: &[u8], rest: &[u8]) -> Vec<u8> {
    in_ipv4(47, head, rest)
}

#[test]
fn on_packets_in_tunnels() {
    let inner = (packet(Opcode::RC_WRITE_ONLY, 7), vec![0xc1; 33]);
    let frame = ENVELOPES[0].around(&[inner]);
    let ip = &frame[14..];
    let erspan_2 = [
        0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, 8, 0x64, 0, 0, 0, 0,
    ];
    let erspan_3 = [
        0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 5, 8, 0x65, 1, 2, 3, 4, 0, 0, 0, 0,
    ];
    let vxlan = in_udp(4789, &[8, 0, 0, 0, 0, 0, 42, 0], &frame);
    let frames = [
        frame.clone(),
        in_gre(&[0, 0, 8, 0], ip),
        in_gre(&[0x20, 0, 0x65, 0x58, 0, 0, 0, 77], &frame),
        in_gre(&[0, 0, 0x88, 0xbe], &frame),
        in_gre(&erspan_2, &frame),
        in_gre(&erspan_3, &frame),
        in_gre(&erspan_2, &vxlan),
        vxlan,
        in_udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 43, 0, 0, 0, 0, 0], &frame),
        in_ipv4(4, &[], ip),
    ];
    let capture = Capture::write("tunnels", &frames);
    let packets = decode(capture.path());
    assert_eq!(packets.len(), frames.len());
    for packet in &packets {
        assert_eq!(packet["icrc"]["verdict"], "ok", "{packet}");
        for name in [
            "src",
            "dst",
            "opcode",
            "dest_qpn",
            "psn",
            "reth",
            "payload_len",
        ] {
            assert_eq!(packet[name], packets[0][name], "{name} of {packet}");
        }
    }
    if !programs::is_installed_or_skip("tshark") {
        return;
    }
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields"]);
    // tshark associates the source port with another protocol.
    for port in [&packets[0]["src_port"], &packets[0]["dst_port"]] {
        tshark.args(["-d", &format!("udp.port=={port},infiniband")]);
    }
    for field in ["opcode", "destqp", "psn"] {
        tshark.args(["-e", &format!("infiniband.bth.{field}")]);
    }
    let output = tshark.arg("-r").arg(capture.path()).output();
    let output = output.expect("tshark runs");
    let lines = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), frames.len(), "{lines:?}");
    let inner = &packets[0];
    let ours = format!(
        "{}\t{:#08x}\t{}",
        inner["opcode"],
        inner["dest_qpn"].as_u64().expect("a number"),
        inner["psn"]
    );
    for line in lines {
        assert_eq!(line, ours);
    }
}
