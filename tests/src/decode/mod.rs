//! Compares `roce decode` with tshark, which shares no code with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::programs;

mod tshark;

#[cfg(test)]
mod tests;

/// A packet's fields by name, as text in the same form for both programs.
type Fields = BTreeMap<&'static str, String>;

/// Checks that `roce decode` and tshark agree about each packet of a capture: whether it is a RoCE
/// packet, each field that both know, and its ICRC; and that all ICRCs are right. Without tshark it
/// checks only the ICRCs, or panics with `ROCE_LAB=require`.
///
/// Returns how many packets there were.
///
/// # Panics
/// If they do not agree. The message has the fields that differ, up to a limit.
pub fn assert_decode_agrees(pcap: &Path) -> usize {
    let packets = decode(pcap);
    for packet in &packets {
        let verdict = &packet["icrc"]["verdict"];
        assert!(
            verdict == "ok",
            "{}: ICRC {verdict}: {packet}",
            pcap.display()
        );
    }
    if programs::is_installed_or_skip("tshark") {
        compare(pcap, &packets);
    }
    packets.len()
}

/// Checks that both agree on each field, whether or not the ICRCs are right: a capture may contain
/// packets that were corrupted on purpose.
///
/// Returns how many packets there were.
///
/// # Panics
/// As [`assert_decode_agrees`].
pub fn assert_decode_agrees_but_for_icrcs(pcap: &Path) -> usize {
    let packets = decode(pcap);
    if programs::is_installed_or_skip("tshark") {
        compare(pcap, &packets);
    }
    packets.len()
}

/// The packets that `roce decode` finds, as it prints them.
///
/// # Panics
/// If it fails, or finds the file broken.
pub fn decode(pcap: &Path) -> Vec<Value> {
    let output = Command::new(programs::roce())
        .args(["decode", "--json"])
        .arg(pcap)
        .output()
        .expect("roce runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", pcap.display());
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .filter(|value: &Value| value["type"] == "packet")
        .collect()
}

/// The most differences to show.
const SHOWN: usize = 20;

fn compare(pcap: &Path, packets: &[Value]) {
    let src_ports = packets.iter().filter_map(|p| p["src_port"].as_u64());
    let theirs = tshark::fields(pcap, &src_ports.collect());
    let mut ours: BTreeMap<u64, Fields> = BTreeMap::new();
    for packet in packets {
        let number = packet["number"].as_u64().expect("a packet has a number");
        // tshark decodes a super-packet as one packet, with the headers of the first and the ICRC
        // of the last.
        let fields = our_fields(packet);
        match ours.get_mut(&number) {
            None => {
                ours.insert(number, fields);
            }
            Some(first) => {
                first.insert("icrc", fields["icrc"].clone());
                first.remove("payload_len");
            }
        }
    }
    let mut differences = Vec::new();
    for number in ours.keys().chain(theirs.keys()) {
        match (ours.get(number), theirs.get(number)) {
            (Some(ours), Some(theirs)) => differences.extend(differing(*number, ours, theirs)),
            (ours, _) => {
                let who = if ours.is_some() { "roce" } else { "tshark" };
                differences.push(format!("packet {number}: only {who} decodes it as RoCE"));
            }
        }
    }
    differences.sort();
    differences.dedup();
    assert!(
        differences.is_empty(),
        "{}: {} differences, of which\n{}",
        pcap.display(),
        differences.len(),
        differences[..differences.len().min(SHOWN)].join("\n")
    );
}

/// The fields of a packet that differ.
fn differing(number: u64, ours: &Fields, theirs: &Fields) -> Vec<String> {
    let mut names: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    names.sort();
    names.dedup();
    let said = |fields: &Fields, name| fields.get(name).cloned().unwrap_or("nothing".into());
    names
        .into_iter()
        // The payload length of a super-packet is not compared.
        .filter(|&&name| name != "payload_len" || ours.contains_key(name))
        .filter(|name| !tshark::is_excused(name, theirs))
        .map(|name| (name, said(ours, name), said(theirs, name)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, ours, theirs)| {
            format!("packet {number}: {name}: roce says {ours}, tshark {theirs}")
        })
        .collect()
}

/// The path of each field in our JSON, and the form in which it is compared.
fn our_fields(packet: &Value) -> Fields {
    let pointers = [
        ("src", "/src"),
        ("dst", "/dst"),
        ("src_port", "/src_port"),
        ("dst_port", "/dst_port"),
        ("dscp", "/dscp"),
        ("ecn", "/ecn"),
        ("ttl", "/ttl"),
        ("ip_id", "/ip_id"),
        ("opcode", "/opcode"),
        ("solicited", "/solicited"),
        ("mig_req", "/mig_req"),
        ("pad", "/pad"),
        ("tver", "/tver"),
        ("pkey", "/pkey"),
        ("dest_qpn", "/dest_qpn"),
        ("fecn", "/fecn"),
        ("becn", "/becn"),
        ("ack_req", "/ack_req"),
        ("psn", "/psn"),
        ("deth.qkey", "/deth/qkey"),
        ("deth.src_qpn", "/deth/src_qpn"),
        ("reth.va", "/reth/va"),
        ("reth.rkey", "/reth/rkey"),
        ("reth.length", "/reth/length"),
        ("atomic_eth.va", "/atomic_eth/va"),
        ("atomic_eth.rkey", "/atomic_eth/rkey"),
        ("atomic_eth.swap_or_add", "/atomic_eth/swap_or_add"),
        ("atomic_eth.compare", "/atomic_eth/compare"),
        ("aeth.syndrome", "/aeth/syndrome"),
        ("aeth.msn", "/aeth/msn"),
        ("atomic_ack_eth.original", "/atomic_ack_eth/original"),
        ("immdt", "/immdt"),
        ("ieth", "/ieth"),
        ("payload_len", "/payload_len"),
        ("icrc", "/icrc/stored"),
        ("vlan", "/vlans/0"),
    ];
    pointers
        .into_iter()
        .filter_map(|(name, pointer)| {
            let text = match packet.pointer(pointer)? {
                // RoCE v1 has no ports.
                Value::Null => return None,
                Value::Bool(flag) => u8::from(*flag).to_string(),
                Value::String(text) => match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok()?.to_string(),
                    None => text.clone(),
                },
                other => other.to_string(),
            };
            Some((name, text))
        })
        .collect()
}
