//! RoCE packets inside of other frames.

use serde_json::{Value, json};

use super::{Opcode, Sender, json as lines, packet, print, usual_pcap};
use crate::decode::testing::{Order, pcap, pcap_cut};

const GRE: u8 = 47;

fn ethernet(ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(rest);
    frame
}

/// An IPv4 header without a checksum.
fn ipv4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend(u16::try_from(20 + rest.len()).unwrap().to_be_bytes());
    header.extend([0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    header.extend(rest);
    header
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    header.extend([next, 64]);
    header.extend([0xfd; 16]);
    header.extend([0xfe; 16]);
    header.extend(rest);
    header
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![0xd0, 0];
    header.extend(port.to_be_bytes());
    header.extend(u16::try_from(8 + rest.len()).unwrap().to_be_bytes());
    header.extend([0, 0]);
    header.extend(rest);
    header
}

fn after(head: &[u8], rest: &[u8]) -> Vec<u8> {
    [head, rest].concat()
}

/// A frame on Ethernet, in one that carries IPv4 with this protocol.
fn in_ipv4(protocol: u8, head: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(protocol, &after(head, inner)))
}

fn in_udp(port: u16, head: &[u8], inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(17, &udp(port, &after(head, inner))))
}

/// Encapsulated frames, and the names that `roce decode` gives to the headers around them.
fn encapsulated() -> Vec<(Value, Vec<u8>)> {
    let repr = packet(Opcode::RC_SEND_ONLY, 3, 4);
    let frame = Sender::v4(false).frame(repr, 9);
    let ip = Sender::v4(false).raw().frame(repr, 9);
    let erspan_2 = [
        0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, 0x08, 0x64, 0, 0, 0, 0,
    ];
    let erspan_3 = [
        0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 5, 0x08, 0x65, 1, 2, 3, 4, 0, 0, 0, 0,
    ];
    // With the header that a switch may add.
    let mut erspan_3_more = erspan_3.to_vec();
    erspan_3_more[19] = 1;
    erspan_3_more.extend([0; 8]);
    let vxlan = [8, 0, 0, 0, 0, 0, 42, 0];
    // With an option of four bytes.
    let geneve = [1, 0, 0x65, 0x58, 0, 0, 43, 0, 0, 0, 0, 0];
    let mpls = [0, 1, 0x90, 64, 0, 2, 0x11, 64];
    let pppoe = [0x11, 0, 0, 7, 0, 60, 0, 0x21];
    let tagged = |tags: &[[u8; 4]]| {
        let mut bytes = frame[..12].to_vec();
        bytes.extend(tags.concat());
        bytes.extend(&frame[12..]);
        bytes
    };
    let tag = [0x81, 0, 0, 5];
    let vxlan_frame = in_udp(4789, &vxlan, &frame);
    vec![
        (json!(["GRE"]), in_ipv4(GRE, &[0, 0, 8, 0], &ip)),
        (
            json!(["GRE 77"]),
            in_ipv4(
                GRE,
                &[0xb0, 0, 0x65, 0x58, 1, 2, 0, 0, 0, 0, 0, 77, 0, 0, 0, 1],
                &frame,
            ),
        ),
        (
            json!(["GRE"]),
            ethernet(0x86dd, &ipv6(GRE, &after(&[0, 0, 8, 0], &ip))),
        ),
        (
            json!(["ERSPAN I"]),
            in_ipv4(GRE, &[0, 0, 0x88, 0xbe], &frame),
        ),
        (json!(["ERSPAN II 100"]), in_ipv4(GRE, &erspan_2, &frame)),
        (json!(["ERSPAN III 101"]), in_ipv4(GRE, &erspan_3, &frame)),
        (
            json!(["ERSPAN III 101"]),
            in_ipv4(GRE, &erspan_3_more, &frame),
        ),
        (json!(["VXLAN 42"]), vxlan_frame.clone()),
        (json!(["Geneve 43"]), in_udp(6081, &geneve, &frame)),
        (
            json!(["ERSPAN II 100", "VXLAN 42"]),
            in_ipv4(GRE, &erspan_2, &vxlan_frame),
        ),
        (json!(["IP in IP"]), in_ipv4(4, &[], &ip)),
        (json!(["IP in IP"]), ethernet(0x86dd, &ipv6(4, &ip))),
        (json!(["MPLS 25"]), ethernet(0x8847, &after(&mpls, &ip))),
        // Ethernet after a control word.
        (
            json!(["MPLS 25"]),
            ethernet(0x8847, &after(&mpls, &after(&[0; 4], &frame))),
        ),
        (json!(["PPPoE 7"]), ethernet(0x8864, &after(&pppoe, &ip))),
        (json!(["VLAN tags 3"]), tagged(&[tag; 3])),
        (json!(["VLAN tags 2"]), tagged(&[[0x91, 0, 0, 9], tag])),
    ]
}

#[test]
fn they_are_decoded_and_named() {
    let (names, frames): (Vec<_>, Vec<_>) = encapsulated().into_iter().unzip();
    let (packets, summary) = lines(&usual_pcap(&frames), &["--other"]);
    assert_eq!(packets.len(), frames.len());
    for (packet, name) in packets.iter().zip(&names) {
        assert_eq!(packet["tunnel"], *name, "{packet}");
        assert_eq!(packet["icrc"]["verdict"], "ok", "{name}: {packet}");
        assert_eq!(packet["src"], "10.0.0.1", "{name}: {packet}");
        assert_eq!(packet["payload_len"], 9, "{name}: {packet}");
    }
    assert_eq!(summary["other"]["records"], 0);
    assert_eq!(summary["tunnels"]["GRE"], 3);
    assert_eq!(summary["tunnels"]["ERSPAN II, VXLAN"], 1);
    let (text, _) = print(&usual_pcap(&frames), &[]);
    assert!(text.contains("  in ERSPAN II 100  in VXLAN 42"), "{text}");
    assert!(text.contains("3  of these in GRE\n"), "{text}");
}

/// After any link header.
#[test]
fn they_are_decoded_in_raw_ip() {
    for (name, frame) in encapsulated() {
        let is_ip = frame[12..14] == [8, 0] || frame[12..14] == [0x86, 0xdd];
        if is_ip {
            let (packets, _) = lines(
                &pcap(Order::Little, false, 101, &[frame[14..].to_vec()]),
                &[],
            );
            assert_eq!(packets[0]["tunnel"], name);
        }
    }
}

/// RoCEv2 has none, and its ICRC is not defined with them.
#[test]
fn packets_behind_ipv6_extension_headers_are_counted() {
    let frame = Sender::v6(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 9);
    let extended = |next: u8, header: &[u8]| {
        let mut bytes = frame.clone();
        bytes[20] = next;
        let len = u16::from_be_bytes([bytes[18], bytes[19]]) + u16::try_from(header.len()).unwrap();
        bytes[18..20].copy_from_slice(&len.to_be_bytes());
        bytes.splice(54..54, header.iter().copied());
        bytes
    };
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let frames = [
        extended(0, &options),
        extended(
            60,
            &[
                60, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0,
            ],
        ),
        extended(51, &[17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
        // Another protocol behind them.
        extended(0, &[6, 0, 1, 4, 0, 0, 0, 0]),
    ];
    let (records, summary) = lines(&usual_pcap(&frames), &["--other"]);
    assert_eq!(summary["packets"], 0);
    assert_eq!(summary["other"]["ipv6_extensions"], 3);
    assert_eq!(summary["other"]["not_roce"], 1);
    let reason = "RoCE behind IPv6 extension headers, which RoCEv2 does not have";
    assert_eq!(records[0]["reason"], reason);
    let (text, _) = print(&usual_pcap(&frames), &[]);
    assert!(text.contains(&format!("3  {reason}\n")), "{text}");
}

/// Other traffic in tunnels is not RoCE, and no header leads beyond the packet or around in circles.
#[test]
fn hostile_tunnels_are_survived() {
    let is_told = |frame: &[u8]| {
        let (records, summary) = lines(&usual_pcap(&[frame.to_vec()]), &["--other"]);
        assert_eq!(summary["records"], 1);
        records.len() == 1
    };
    for (name, frame) in encapsulated() {
        for len in 0..frame.len() {
            assert!(is_told(&frame[..len]), "{name}: {len} bytes");
            let cut = pcap_cut(Order::Little, false, 1, &[(&frame[..len], frame.len())]);
            let (records, _) = lines(&cut, &["--other"]);
            assert_eq!(records.len(), 1, "{name}: {len} bytes captured");
            for value in [0, 0x45, 0x81, 0xff] {
                let mut changed = frame.clone();
                changed[len] = value;
                assert!(is_told(&changed), "{name}: byte {len} is {value}");
            }
        }
    }
    let circle: Vec<u8> = [0x60, 0, 0, 0, 0xff, 0xff, 41, 64]
        .into_iter()
        .chain([0; 32])
        .collect();
    let deep = ethernet(0x86dd, &circle.repeat(1000));
    let tags = ethernet(0x8100, &[0, 5, 0x81, 0].repeat(10_000));
    let labels = ethernet(0x8847, &[0; 40_000]);
    let extensions = ethernet(0x86dd, &ipv6(0, &[0; 40_000]));
    for frame in [deep, tags, labels, extensions] {
        assert!(is_told(&frame));
    }
}
