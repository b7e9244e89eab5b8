//! tshark's output for a capture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::Fields;

/// A field of tshark: our name for it, tshark's name, and its form.
struct Column(&'static str, &'static str, Form);

#[derive(Clone, Copy)]
enum Form {
    /// An address, unchanged.
    Text,
    /// A number, decimal or 0x hexadecimal.
    Number,
    /// Bytes in hexadecimal, in the order of the packet.
    Bytes,
    /// A 32-bit number whose bytes we read in the other order.
    Swapped,
}

use Form::{Bytes, Number, Swapped, Text};

/// The number of the packet, and all compared fields.
const COLUMNS: &[Column] = &[
    Column("number", "frame.number", Number),
    Column("src", "ip.src", Text),
    Column("src", "ipv6.src", Text),
    Column("dst", "ip.dst", Text),
    Column("dst", "ipv6.dst", Text),
    Column("src_port", "udp.srcport", Number),
    Column("dst_port", "udp.dstport", Number),
    Column("dscp", "ip.dsfield.dscp", Number),
    Column("dscp", "ipv6.tclass.dscp", Number),
    Column("ecn", "ip.dsfield.ecn", Number),
    Column("ecn", "ipv6.tclass.ecn", Number),
    Column("ttl", "ip.ttl", Number),
    Column("ttl", "ipv6.hlim", Number),
    Column("ip_id", "ip.id", Number),
    Column("vlan", "vlan.id", Number),
    Column("opcode", "infiniband.bth.opcode", Number),
    Column("solicited", "infiniband.bth.se", Number),
    Column("mig_req", "infiniband.bth.m", Number),
    Column("pad", "infiniband.bth.padcnt", Number),
    Column("tver", "infiniband.bth.tver", Number),
    Column("pkey", "infiniband.bth.p_key", Number),
    // tshark has several reserved fields. The first has the congestion bits.
    Column(CONGESTION, "infiniband.reserved", Bytes),
    Column("dest_qpn", "infiniband.bth.destqp", Number),
    Column("ack_req", "infiniband.bth.a", Number),
    Column("psn", "infiniband.bth.psn", Number),
    Column("deth.qkey", "infiniband.deth.q_key", Number),
    Column("deth.src_qpn", "infiniband.deth.srcqp", Number),
    // The next two are also those of an AtomicETH.
    Column(VA, "infiniband.reth.va", Number),
    Column(RKEY, "infiniband.reth.r_key", Number),
    Column("reth.length", "infiniband.reth.dmalen", Number),
    Column(
        "atomic_eth.swap_or_add",
        "infiniband.atomiceth.swapdt",
        Number,
    ),
    Column("atomic_eth.compare", "infiniband.atomiceth.cmpdt", Number),
    Column("aeth.syndrome", "infiniband.aeth.syndrome", Number),
    Column("aeth.msn", "infiniband.aeth.msn", Number),
    Column(
        "atomic_ack_eth.original",
        "infiniband.atomicacketh.origremdt",
        Number,
    ),
    Column("immdt", "infiniband.immdt", Bytes),
    Column("ieth", "infiniband.ieth", Bytes),
    Column("icrc", "infiniband.invariant.crc", Swapped),
    Column(PADDED, "data.len", Number),
    // RoCE v1.
    Column("src", "infiniband.grh.sgid", Text),
    Column("dst", "infiniband.grh.dgid", Text),
    Column(GRH_CLASS, "infiniband.grh.tclass", Number),
    Column("ttl", "infiniband.grh.hoplmt", Number),
];

const GRH_CLASS: &str = "traffic_class";
const CONGESTION: &str = "congestion";
const VA: &str = "va";
const RKEY: &str = "rkey";
const PADDED: &str = "padded_len";

/// tshark's payload heuristics, which report "malformed" if they guess wrong.
const GUESSES: &[&str] = &[
    "eth_over_ib",
    "fc_infiniband",
    "iser_infiniband",
    "lnet_ib",
    "mellanox_eoib",
    "rpcrdma_infiniband",
    "sdp_infiniband",
    "smb_direct_infiniband",
    "smcr_infiniband",
];

/// The RoCE packets that tshark finds, by their numbers. `src_ports` are their source ports, which
/// tshark must not interpret as those of other protocols.
///
/// # Panics
/// If it fails.
pub(super) fn fields(pcap: &Path, src_ports: &BTreeSet<u64>) -> BTreeMap<u64, Fields> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-Y", "infiniband.bth && !icmp && !icmpv6"]);
    tshark.args(["-T", "fields", "-E", "occurrence=f", "-E", "separator=/t"]);
    for Column(_, name, _) in COLUMNS {
        tshark.args(["-e", name]);
    }
    for guess in GUESSES {
        tshark.args(["--disable-heuristic", guess]);
    }
    let well_known = src_ports.iter().filter(|&&port| port < 0xc000);
    for port in [&4791].into_iter().chain(well_known) {
        tshark.arg("-d").arg(format!("udp.port=={port},infiniband"));
    }
    let output = tshark.arg("-r").arg(pcap).output().expect("tshark runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", pcap.display());
    let lines = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    lines
        .lines()
        .map(|line| {
            let mut fields = parse(line);
            let number = fields.remove("number").and_then(|text| text.parse().ok());
            (number.expect("a packet has a number"), fields)
        })
        .collect()
}

/// The fields of a line, in the form in which they are compared.
pub(super) fn parse(line: &str) -> Fields {
    let mut fields: Fields = COLUMNS
        .iter()
        .zip(line.split('\t'))
        .filter(|(_, text)| !text.is_empty())
        .map(|(&Column(name, _, form), text)| (name, canonical(text, form)))
        .collect();
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    if let Some(bits) = number(fields.remove(CONGESTION)) {
        fields.insert("fecn", (bits >> 7 & 1).to_string());
        fields.insert("becn", (bits >> 6 & 1).to_string());
    }
    if let Some(class) = number(fields.remove(GRH_CLASS)) {
        fields.insert("dscp", (class >> 2).to_string());
        fields.insert("ecn", (class & 3).to_string());
    }
    let is_atomic = fields.contains_key("atomic_eth.compare");
    for (name, atomic, reth) in [
        (VA, "atomic_eth.va", "reth.va"),
        (RKEY, "atomic_eth.rkey", "reth.rkey"),
    ] {
        if let Some(value) = fields.remove(name) {
            fields.insert(if is_atomic { atomic } else { reth }, value);
        }
    }
    let padded = number(fields.remove(PADDED)).unwrap_or(0);
    let pad = number(fields.get("pad").cloned()).unwrap_or(0);
    fields.insert("payload_len", padded.saturating_sub(pad).to_string());
    fields
}

fn canonical(text: &str, form: Form) -> String {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let number = match form {
        Text => None,
        Number => match text.strip_prefix("0x") {
            Some(digits) => hex(digits),
            None => text.parse().ok(),
        },
        Bytes => hex(&text.replace(':', "")),
        Swapped => text
            .strip_prefix("0x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .map(|value| value.swap_bytes().into()),
    };
    number.map_or_else(|| text.to_owned(), |number| number.to_string())
}

/// Whether tshark can not decode this field of the packet.
pub(super) fn is_excused(name: &str, theirs: &Fields) -> bool {
    let opcode = theirs.get("opcode").and_then(|text| text.parse().ok());
    let is_to_qp1 = theirs.get("dest_qpn").is_some_and(|qpn| qpn == "1");
    match opcode {
        // FLUSH and ATOMIC WRITE, CNP, XRC: tshark 4.0 treats everything after the BTH as "vendor
        // specific".
        Some(0x1c | 0x1d | 0x80..) => {
            name.contains('.') || ["immdt", "ieth", "payload_len", "icrc"].contains(&name)
        }
        // It dissects a MAD and does not report its length.
        Some(0x64..=0x65) if is_to_qp1 => name == "payload_len",
        _ => false,
    }
}
