//! Link types: the same packet is decoded after any link header.

use serde_json::Value;

use super::{Blocks, Opcode, Order, Sender, json, packet, pcap, print, usual_pcap};

/// Fields that do not depend on the link type.
fn essence(packet: &Value) -> Value {
    let mut packet = packet.clone();
    let fields = packet.as_object_mut().unwrap();
    for name in ["number", "time", "wire_len", "captured_len", "vlans"] {
        fields.remove(name);
    }
    packet
}

fn cooked(protocol: u16) -> Vec<u8> {
    let mut header = vec![0; 14];
    header[3] = 1;
    header[5] = 6;
    header.extend(protocol.to_be_bytes());
    header
}

fn cooked_2(protocol: u16) -> Vec<u8> {
    let mut header = protocol.to_be_bytes().to_vec();
    header.extend([0; 18]);
    header
}

#[test]
fn each_is_understood() {
    for (is_v6, ethertype, own_type) in [(false, 0x0800_u16, 228), (true, 0x86dd, 229)] {
        let sender = if is_v6 { Sender::v6 } else { Sender::v4 }(false);
        let repr = packet(Opcode::RC_SEND_ONLY, 3, 4);
        let ethernet = sender.frame(repr, 9);
        let tagged = sender.in_vlan(5).frame(repr, 9);
        let ip = sender.raw().frame(repr, 9);
        let tag = [&[0, 5], &ethertype.to_be_bytes()[..]].concat();
        let after = |head: Vec<u8>| [head, ip.clone()].concat();
        let expected = essence(&json(&usual_pcap(std::slice::from_ref(&ethernet)), &[]).0[0]);
        assert_eq!(expected["icrc"]["verdict"], "ok");
        let frames = [
            (1, ethernet),
            (1, tagged),
            (12, ip.clone()),
            (14, ip.clone()),
            (101, ip.clone()),
            (own_type, ip.clone()),
            (113, after(cooked(ethertype))),
            (113, after([cooked(0x8100), tag.clone()].concat())),
            (276, after(cooked_2(ethertype))),
            (276, after([cooked_2(0x8100), tag.clone()].concat())),
        ];
        for (link_type, frame) in frames {
            let file = pcap(Order::Little, false, link_type, &[frame]);
            let (packets, _) = json(&file, &[]);
            assert_eq!(packets.len(), 1, "link type {link_type}");
            assert_eq!(essence(&packets[0]), expected, "link type {link_type}");
        }
    }
}

/// Padding after a short frame is not payload, and neither is a frame check sequence.
#[test]
fn trailers_are_ignored() {
    let mut frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 1);
    frame.extend([0xaa; 13]);
    let (packets, _) = json(&usual_pcap(&[frame]), &[]);
    assert_eq!(packets[0]["payload_len"], 1);
    assert_eq!(packets[0]["icrc"]["verdict"], "ok");
}

/// In pcapng each interface has a link type of its own, and an unsupported one hides only its own
/// packets.
#[test]
fn each_interface_has_its_own() {
    let sender = Sender::v4(false);
    let repr = packet(Opcode::RC_SEND_ONLY, 3, 4);
    let blocks = Blocks(Order::Big);
    let mut file = blocks.section();
    for link_type in [1, 101, 147] {
        file.extend(blocks.interface(link_type, &[]));
    }
    file.extend(blocks.packet(1, 0, &sender.raw().frame(repr, 1)));
    file.extend(blocks.packet(2, 1, &sender.frame(repr, 1)));
    file.extend(blocks.packet(0, 2, &sender.frame(repr, 1)));
    let (lines, summary) = json(&file, &["--other"]);
    let types: Vec<_> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(types, ["packet", "other", "packet"]);
    assert_eq!(lines[1]["reason"], "link type 147 is not supported");
    assert_eq!(summary["other"]["unsupported_link_type"], 1);
    let (text, _) = print(&file, &[]);
    assert!(
        text.contains("1  of link types that are not supported, like 147"),
        "{text}"
    );
}

#[test]
fn what_is_not_roce_is_counted_by_reason() {
    let good = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 1);
    let changed = |at: usize, to: u8| {
        let mut frame = good.clone();
        frame[at] = to;
        frame
    };
    let frames = [
        changed(12, 9),    // EtherType
        changed(23, 6),    // protocol
        changed(36, 1),    // destination port
        changed(20, 0x20), // more fragments
        changed(16, 0xff), // total length
        changed(38, 0xff), // UDP length
        good[..10].to_vec(),
        Vec::new(),
    ];
    let (lines, summary) = json(&usual_pcap(&frames), &["--other"]);
    assert_eq!(lines.len(), frames.len());
    let other = &summary["other"];
    assert_eq!(other["records"], 8);
    assert_eq!(other["not_roce"], 3);
    assert_eq!(other["fragments"], 1);
    assert_eq!(other["malformed"], 4);
}
