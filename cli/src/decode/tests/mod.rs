//! Captures made in the test, and their decoded output.

use std::io;

use clap::Parser;
use roce_wire::{AtomicEth, Credits, Deth, Ieth, ImmDt, NakCode, Opcode, QKey, Qpn, Syndrome};
use serde_json::Value;

use super::testing::{
    Blocks, Order, Sender, packet, pcap, pcap_cut, request, response, usual_pcap,
};
use super::{DecodeArgs, decode};

mod comments;
mod hostile;
mod links;
mod segments;
mod tunnels;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: DecodeArgs,
}

fn arguments(args: &[&str]) -> DecodeArgs {
    let args = ["decode", "-"].iter().chain(args);
    Cli::try_parse_from(args).unwrap().args
}

/// The output for a file, and its error.
pub(super) fn print(file: &[u8], args: &[&str]) -> (String, Option<String>) {
    let mut out = Vec::new();
    let broken = decode(file, &arguments(args), &mut out, |_| {}).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text, broken.map(|error| error.to_string()))
}

/// The objects printed for a valid file: packets and other records, then the summary.
pub(super) fn json(file: &[u8], args: &[&str]) -> (Vec<Value>, Value) {
    let args = [&["--json"], args].concat();
    let (text, broken) = print(file, &args);
    assert_eq!(broken, None);
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["type"], "summary");
    (lines, summary)
}

/// A connection's worth of packets: there and back.
fn conversation() -> Vec<Vec<u8>> {
    let there = Sender::v4(false);
    let back = Sender::v4(true);
    let no_credits = Syndrome::Ack(Credits::INVALID);
    let credits = Syndrome::Ack(Credits::from_code(5).unwrap());
    let mut asks = request(Opcode::RC_WRITE_ONLY_WITH_IMMEDIATE, 0x12, 0xff_ffff, 5);
    asks.ext.imm = Some(ImmDt(0xdead_beef));
    asks.bth.ack_req = true;
    asks.bth.solicited = true;
    let mut atomic = packet(Opcode::RC_COMPARE_SWAP, 0x12, 1);
    atomic.ext.atomic = Some(AtomicEth {
        va: u64::MAX - 7,
        rkey: 9,
        swap_or_add: u64::MAX,
        compare: 1,
    });
    let mut atomic_ack = response(Opcode::RC_ATOMIC_ACKNOWLEDGE, 0x11, 1, credits);
    atomic_ack.ext.atomic_ack = Some(roce_wire::AtomicAckEth { original: 1 << 63 });
    let mut invalidate = packet(Opcode::RC_SEND_ONLY_WITH_INVALIDATE, 0x12, 2);
    invalidate.ext.ieth = Some(Ieth(0x1234));
    let refused = Syndrome::Nak(NakCode::RemoteAccessError);
    let not_ready = Syndrome::RnrNak(roce_wire::RnrTimer::from_code(14).unwrap());
    vec![
        there.frame(asks, 5),
        back.frame(
            response(Opcode::RC_ACKNOWLEDGE, 0x11, 0xff_ffff, no_credits),
            0,
        ),
        there.frame(request(Opcode::RC_READ_REQUEST, 0x12, 0, 64), 0),
        back.frame(
            response(Opcode::RC_READ_RESPONSE_ONLY, 0x11, 0, credits),
            64,
        ),
        there.frame(atomic, 0),
        back.frame(atomic_ack, 0),
        there.frame(invalidate, 7),
        back.frame(response(Opcode::RC_ACKNOWLEDGE, 0x11, 2, not_ready), 0),
        there.frame(invalidate, 7),
        back.frame(response(Opcode::RC_ACKNOWLEDGE, 0x11, 2, refused), 0),
        back.frame(packet(Opcode::CNP, 0x11, 0), 0),
    ]
}

#[test]
fn text_matches_the_golden_file() {
    let mut frames = conversation();
    let last = frames[0].len() - 1;
    let mut bad = frames[0].clone();
    bad[last] ^= 1;
    frames.push(bad);
    frames.push(b"something else altogether".to_vec());
    let (text, broken) = print(&usual_pcap(&frames), &["--other"]);
    assert_eq!(broken, None);
    let expected = include_str!("golden.txt");
    assert!(text == expected, "expected:\n{expected}\nfound:\n{text}");
}

#[test]
fn json_has_every_field() {
    let (packets, summary) = json(&usual_pcap(&conversation()), &[]);
    let text: Vec<String> = packets.iter().map(Value::to_string).collect();
    let expected = include_str!("golden.jsonl");
    let found = text.join("\n") + "\n" + &summary.to_string() + "\n";
    assert!(found == expected, "expected:\n{expected}\nfound:\n{found}");
}

/// Times, addresses and the rest do not depend on the file's format.
#[test]
fn every_format_gives_the_same_packets() {
    let frames = conversation();
    let (expected, expected_summary) = json(&usual_pcap(&frames), &[]);
    for order in [Order::Little, Order::Big] {
        let mut pcapng = Blocks(order).section();
        pcapng.extend(Blocks(order).interface(1, &[]));
        for (i, frame) in (0..).zip(&frames) {
            let ticks = 1_700_000_000_000_001 + 10 * i;
            pcapng.extend(Blocks(order).packet(0, ticks, frame));
        }
        for file in [
            pcap(order, false, 1, &frames),
            pcap(order, true, 1, &frames),
            pcapng,
        ] {
            let (packets, summary) = json(&file, &[]);
            assert_eq!(packets, expected);
            assert_eq!(summary, expected_summary);
        }
    }
}

#[test]
fn datagrams_name_their_sender() {
    let mut datagram = packet(Opcode::UD_SEND_ONLY, 1, 7);
    datagram.ext.deth = Some(Deth {
        qkey: QKey::QP1,
        src_qpn: Qpn::QP1,
    });
    let file = usual_pcap(&[Sender::v6(false).in_vlan(77).frame(datagram, 256)]);
    let (packets, summary) = json(&file, &[]);
    let packet = &packets[0];
    assert_eq!(packet["src"], "fe80::1");
    assert_eq!(packet["vlans"], serde_json::json!([77]));
    assert_eq!(packet["deth"]["qkey"], 0x8001_0000_u32);
    assert_eq!(packet["deth"]["src_qpn"], 1);
    assert_eq!(summary["flows"][0]["src_qpn"], 1);
    let (text, _) = print(&file, &[]);
    assert!(
        text.contains("vlan 77  qkey 0x80010000 from QP 0x000001"),
        "{text}"
    );
}

/// A packet that violates a rule is shown as far as possible, with the rule.
#[test]
fn malformed_packets_are_explained() {
    let sender = Sender::v4(false);
    let mut versioned = packet(Opcode::RC_SEND_ONLY, 3, 4);
    versioned.bth.version = 2;
    let mut unknown = sender.frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 0);
    unknown[42] = 0xff;
    let frames = [
        sender.frame(versioned, 4),
        sender.frame(packet(Opcode::RC_SEND_LAST, 3, 5), 0),
        unknown,
    ];
    let (packets, summary) = json(&usual_pcap(&frames), &[]);
    assert_eq!(packets[0]["error"], "BTH version: found 0x2, expected 0");
    assert_eq!(packets[0]["tver"], 2);
    assert_eq!(packets[0]["icrc"]["verdict"], "ok");
    assert_eq!(
        packets[1]["error"],
        "payload length: found 0 bytes, expected 1 byte to the path MTU"
    );
    assert_eq!(packets[1]["dest_qpn"], 3);
    assert_eq!(
        packets[2]["error"],
        "BTH opcode: found 0xff, expected an opcode of RC, UC, UD, XRC or CNP"
    );
    assert_eq!(packets[2].get("opcode"), None);
    assert_eq!(summary["malformed"], 3);
    assert_eq!(summary["untracked_packets"], 1);
    assert_eq!(summary["flows"][0]["malformed"], 2);
    assert_eq!(summary["flows"][0]["messages"], serde_json::json!({}));
}

/// A flipped bit in the covered bytes is detected, and the packet's PSN is not tracked.
#[test]
fn wrong_icrcs_are_reported() {
    let mut frame = Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 3, 4), 8);
    frame[60] ^= 0x10;
    let file = usual_pcap(&[frame]);
    let (packets, summary) = json(&file, &[]);
    let icrc = &packets[0]["icrc"];
    assert_eq!(icrc["verdict"], "bad");
    assert_ne!(icrc["stored"], icrc["computed"]);
    assert_eq!(summary["icrc_bad"], 1);
    assert_eq!(summary["flows"][0]["icrc_bad"], 1);
    assert_eq!(summary["flows"][0]["messages"], serde_json::json!({}));
    let (_, summary) = json(&file, &["--ignore-icrc"]);
    assert_eq!(summary["flows"][0]["messages"]["send"], 1);
}

#[test]
fn filters() {
    let mut elsewhere = Sender::v4(false);
    elsewhere.ports.1 = 8000;
    let frames = [
        Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 0x11, 0), 0),
        Sender::v4(false).frame(packet(Opcode::RC_SEND_ONLY, 0x12, 0), 0),
        elsewhere.frame(packet(Opcode::RC_SEND_ONLY, 0x11, 0), 0),
    ];
    let file = usual_pcap(&frames);
    let numbers = |args: &[&str]| {
        let (packets, _) = json(&file, args);
        let numbers = packets.iter().filter(|packet| packet["type"] == "packet");
        numbers
            .map(|packet| packet["number"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&[]), [1, 2]);
    assert_eq!(numbers(&["--port", "8000"]), [1, 2, 3]);
    assert_eq!(
        numbers(&["--port=7999", "--port=8000", "--qpn=0x11"]),
        [1, 3]
    );
    assert_eq!(numbers(&["--qpn", "18"]), [2]);
    assert_eq!(numbers(&["--count", "1"]), [1]);
    assert!(numbers(&["--summary"]).is_empty());
    let (_, summary) = json(&file, &["--qpn", "18"]);
    assert_eq!(summary["filtered"], 1);
    assert_eq!(summary["packets"], 1);
    assert_eq!(summary["other"]["not_roce"], 1);
    let (lines, _) = json(&file, &["--other"]);
    assert_eq!(
        lines[2]["reason"],
        "UDP destination port: found 0x1f40, expected 0x12b7 (4791)"
    );
    let (packets, _) = json(&file, &["--port", "8000"]);
    assert_eq!(packets[2]["icrc"]["verdict"], "ok");
}

#[test]
fn wrong_usage_is_refused() {
    for args in [
        &["--qpn", "0x1000000"][..],
        &["--qpn", "QP1"],
        &["--port", "0"],
        &["--port", "65536"],
        &["--count", "0"],
        &["--summary", "--other"],
        &["--files"],
    ] {
        let args = ["decode", "-"].iter().chain(args);
        let error = Cli::try_parse_from(args).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }
    let error = Cli::try_parse_from(["decode", "-", "--qpn", "QP1"]).unwrap_err();
    assert!(error.to_string().contains("0 to 16777215"), "{error}");
}

/// Decoding ends as soon as the output reports an error.
#[test]
fn errors_of_the_output_are_returned() {
    struct Closed;
    impl io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = usual_pcap(&conversation());
    for args in [&[][..], &["--json"], &["--summary"]] {
        let error = decode(&file[..], &arguments(args), Closed, |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
