//! Super-packets, which are several packets in one datagram.

use serde_json::json as value;

use super::{Opcode, Sender, json, packet, print, request, usual_pcap};

fn write_of(sizes: &[usize]) -> Vec<(roce_wire::PacketRepr, usize)> {
    let last = sizes.len() - 1;
    let opcode = |i| match i {
        0 => Opcode::RC_WRITE_FIRST,
        i if i == last => Opcode::RC_WRITE_LAST,
        _ => Opcode::RC_WRITE_MIDDLE,
    };
    let reprs = (0..).zip(sizes).map(|(i, &size)| {
        let psn = 100 + i as u32;
        (request(opcode(i), 3, psn, 0), size)
    });
    reprs.collect()
}

/// Packets of equal length and a shorter one.
#[test]
fn are_taken_apart() {
    // A first packet has 16 bytes of header more than a middle one: such a datagram is
    // not one that can be segmented, so it starts in the middle of a message.
    let middles = write_of(&[1024; 6])[1..5].to_vec();
    let shorter = (packet(Opcode::RC_WRITE_LAST, 3, 105), 77);
    let packets = [middles, vec![shorter]].concat();
    for sender in [Sender::v4(false), Sender::v6(false)] {
        let file = usual_pcap(&[
            sender.super_frame(&packets),
            sender.super_frame(&packets[1..]),
        ]);
        let (found, summary) = json(&file, &[]);
        assert_eq!(found.len(), 9);
        for (i, packet) in found[..5].iter().enumerate() {
            assert_eq!(packet["number"], 1);
            assert_eq!(packet["gso"], value!({"index": i + 1, "count": 5}));
            assert_eq!(packet["psn"], 101 + i);
            assert_eq!(packet["icrc"]["verdict"], "ok");
        }
        assert_eq!(found[4]["payload_len"], 77);
        assert_eq!(found[4]["pad"], 3);
        assert_eq!(found[5]["gso"]["count"], 4);
        assert_eq!(summary["records"], 2);
        assert_eq!(summary["packets"], 9);
        assert_eq!(summary["super_packets"], 2);
        let (text, _) = print(&file, &[]);
        assert!(text.contains("  gso 5/5"), "{text}");
    }
}

/// Only packets without payload.
#[test]
fn of_the_shortest_packets() {
    let packets: Vec<_> = (0..64)
        .map(|psn| (packet(Opcode::RC_SEND_ONLY, 3, psn), 0))
        .collect();
    let (found, _) = json(&usual_pcap(&[Sender::v4(true).super_frame(&packets)]), &[]);
    assert_eq!(found.len(), 64);
    assert_eq!(found[63]["psn"], 63);
    assert!(found.iter().all(|packet| packet["icrc"]["verdict"] == "ok"));
}

/// One broken segment is distinguished from the others.
#[test]
fn each_segment_has_its_own_verdict() {
    let packets = &write_of(&[256; 5])[1..4];
    let mut frame = Sender::v4(false).super_frame(packets);
    let segment = 12 + 256 + 4;
    frame[42 + segment + 20] ^= 1;
    let (found, _) = json(&usual_pcap(&[frame]), &[]);
    let verdicts: Vec<_> = found.iter().map(|p| &p["icrc"]["verdict"]).collect();
    assert_eq!(verdicts, ["ok", "bad", "ok"]);
}

/// A packet that is simply broken is one packet.
#[test]
fn are_not_seen_where_there_are_none() {
    let mut frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 4096);
    frame[1000] ^= 1;
    let (found, _) = json(&usual_pcap(&[frame]), &[]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get("gso"), None);
    assert_eq!(found[0]["icrc"]["verdict"], "bad");
}
