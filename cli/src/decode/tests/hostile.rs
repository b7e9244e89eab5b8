//! Files that are truncated, broken or malicious.

use super::{Opcode, Sender, json, packet, pcap_cut, print, request, usual_pcap};
use crate::decode::testing::{Order, pcap};

/// Of a truncated packet, exactly the captured part is shown, and the packet is marked as cut.
#[test]
fn cut_packets_are_shown_as_far_as_they_go() {
    for sender in [Sender::v4(false), Sender::v6(false)] {
        let frame = sender.frame(request(Opcode::RC_WRITE_ONLY, 3, 4, 50), 50);
        let transport_at = frame.len() - (12 + 16 + 52 + 4);
        for len in 0..frame.len() {
            let file = pcap_cut(Order::Little, false, 1, &[(&frame[..len], frame.len())]);
            let (packets, summary) = json(&file, &[]);
            if len < transport_at - 2 {
                assert_eq!(packets.len(), 0, "{len}");
                assert_eq!(summary["other"]["records"], 1);
                continue;
            }
            let packet = &packets[0];
            assert_eq!(packet["icrc"]["verdict"], "cut", "{len}");
            assert_eq!(packet["captured_len"], len);
            assert_eq!(packet.get("error"), None);
            let there = len.saturating_sub(transport_at);
            assert_eq!(packet.get("psn").is_some(), there >= 12, "{len}");
            assert_eq!(packet.get("reth").is_some(), there >= 28, "{len}");
            if there >= 28 {
                assert_eq!(packet["payload_len"], 50);
                assert_eq!(packet["reth"]["length"], 50);
            }
        }
    }
}

/// A packet of which only the link's padding was not captured is complete.
#[test]
fn cut_trailers_do_not_matter() {
    let frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 0);
    let file = pcap_cut(Order::Little, false, 1, &[(&frame, 64)]);
    assert_eq!(json(&file, &[]).0[0]["icrc"]["verdict"], "ok");
}

#[test]
fn text_says_how_much_was_captured() {
    let frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 1024);
    let file = pcap_cut(Order::Little, false, 1, &[(&frame[..96], frame.len())]);
    let (text, _) = print(&file, &[]);
    assert!(
        text.contains("1024  cut   96 of 1082 bytes captured"),
        "{text}"
    );
}

/// The readable part of a broken file is printed, including a summary.
#[test]
fn broken_files_are_read_as_far_as_they_go() {
    let frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 8);
    let mut file = usual_pcap(&[frame.clone(), frame]);
    file.pop();
    let (text, broken) = print(&file, &[]);
    let broken = broken.unwrap();
    assert!(
        broken.starts_with("at offset 122: the file ends in a packet"),
        "{broken}"
    );
    assert!(text.contains("RC SEND Only"), "{text}");
    assert!(
        text.contains(&format!("The file is broken {broken}.")),
        "{text}"
    );
    let (text, _) = print(&file, &["--json"]);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"], broken);
    assert_eq!(last["records"], 1);
}

/// A capture in which any one byte is changed is still decoded without a panic.
#[test]
fn no_changed_byte_causes_a_panic() {
    let sender = Sender::v4(false);
    let packets: Vec<_> = (0..3)
        .map(|psn| (packet(Opcode::RC_SEND_ONLY, 3, psn), 8))
        .collect();
    let frames = [
        sender.frame(request(Opcode::RC_READ_REQUEST, 3, 4, 50), 0),
        sender.super_frame(&packets),
    ];
    let file = pcap(Order::Big, true, 1, &frames);
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] = value;
            let (text, _) = print(&file, &[]);
            assert!(text.contains("in the file"), "{text}");
            let (text, _) = print(&file, &["--json", "--other"]);
            for line in text.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }
}

/// Bytes of an earlier packet do not fill in for those that were not captured.
#[test]
fn missing_bytes_are_not_taken_from_earlier_packets() {
    let frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 8);
    let (most, little) = (&frame[..58], &frame[..30]);
    let packets = [most, little, most].map(|part| (part, frame.len()));
    let (found, summary) = json(&pcap_cut(Order::Little, false, 1, &packets), &[]);
    let numbers: Vec<_> = found.iter().map(|packet| &packet["number"]).collect();
    assert_eq!(numbers, [1, 3]);
    assert_eq!(summary["other"]["records"], 1);
}
