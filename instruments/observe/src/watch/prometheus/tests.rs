//! A parser reads what was written. It accepts only what the format's description allows, and
//! shares no code with the writer.

use super::super::snapshot::QpSnapshot;
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// A sample: the metric, its labels, its value.
type Sample = (String, Vec<(String, String)>, f64);

/// Reads a whole text; panics at the first error.
fn read(text: &str) -> Vec<Sample> {
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line does not end"
    );
    let mut seen = BTreeSet::new();
    let mut begun: Option<(String, Option<String>)> = None;
    let mut samples: Vec<Sample> = Vec::new();
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && is_name(name), "{line}");
            assert!(seen.insert(name.to_owned()), "{name} comes twice");
            begun = Some((name.to_owned(), None));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            let (expected, type_of) = begun.as_mut().expect("HELP comes first");
            assert_eq!(name, expected);
            assert!(
                type_of.is_none() && matches!(kind, "counter" | "gauge"),
                "{line}"
            );
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            *type_of = Some(kind.to_owned());
        } else {
            let sample = read_sample(line);
            let (name, type_of) = begun.as_ref().expect("TYPE comes first");
            assert!(type_of.is_some() && sample.0 == *name, "{line}");
            assert!(
                series.insert((sample.0.clone(), sample.1.clone())),
                "twice: {line}"
            );
            assert!(
                type_of.as_deref() != Some("counter") || sample.2 >= 0.0,
                "{line}"
            );
            samples.push(sample);
        }
    }
    samples
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn read_sample(line: &str) -> Sample {
    let (name, mut rest) = line.split_once('{').expect("labels");
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    loop {
        let (label, after) = rest.split_once("=\"").expect("a label");
        assert!(is_name(label), "{line}");
        let (value, after) = read_value(after);
        assert!(
            labels.iter().all(|(other, _)| other != label),
            "twice: {line}"
        );
        labels.push((label.to_owned(), value));
        if let Some(after) = after.strip_prefix("} ") {
            return (name.to_owned(), labels, after.parse().expect("a number"));
        }
        rest = after.strip_prefix(',').expect("a comma or the end");
    }
}

/// Reads up to the closing quote. The format has three escapes.
fn read_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                other => panic!("no such escape: {other:?}"),
            },
            other => value.push(other),
        }
    }
    panic!("an unterminated value: {text}");
}

fn device(context: u64, name: &str) -> DeviceSnapshot {
    let counters = roce_stack::Stat::ALL.iter().zip(100..);
    let drops = roce_stack::DropReason::ALL.iter().zip(200..);
    DeviceSnapshot {
        context,
        device: name.to_owned(),
        interface: "eth0".to_owned(),
        datapath: "udp".to_owned(),
        counters: counters.map(|(s, n)| (s.label().to_owned(), n)).collect(),
        drops: drops.map(|(r, n)| (r.label().to_owned(), n)).collect(),
        port: BTreeMap::from([("tx_datagrams".to_owned(), 7)]),
        qps: vec![QpSnapshot {
            qpn: 0x1234,
            state: "RTS".to_owned(),
            retransmitted: 5,
            rate_bits_per_second: Some(8e9),
            rtt_seconds: Some(25e-6),
            ..QpSnapshot::default()
        }],
        ..DeviceSnapshot::default()
    }
}

fn value(samples: &[Sample], name: &str, label: (&str, &str)) -> Option<f64> {
    let has = |labels: &[(String, String)]| labels.iter().any(|(n, v)| (&**n, &**v) == label);
    let found = samples
        .iter()
        .find(|(n, labels, _)| n == name && has(labels));
    found.map(|(_, _, value)| *value)
}

/// Two contexts of one device, and a name that tries to break out of its quotes.
#[test]
fn the_text_is_valid_prometheus_format() {
    let odd = "a\"} 1\nroce_evil{x=\"\\";
    let snapshot = Snapshot {
        devices: vec![
            device(1, "roce_eth0"),
            device(2, "roce_eth0"),
            device(3, odd),
        ],
        ..Snapshot::default()
    };
    let samples = read(&text(&snapshot));
    assert!(
        samples
            .iter()
            .any(|(_, labels, _)| labels.iter().any(|(_, value)| value == odd))
    );
    assert!(
        samples
            .iter()
            .all(|(name, _, _)| name.starts_with("roce_") && name != "roce_evil")
    );
    let names: BTreeSet<_> = samples.iter().map(|(name, _, _)| name).collect();
    // Every counter has a metric of its own.
    assert!(names.len() > roce_stack::Stat::ALL.len() + 10, "{names:?}");
    let stat = |name| value(&samples, name, ("context", "2"));
    assert_eq!(stat("roce_received_packets_total"), Some(100.0));
    assert_eq!(stat("roce_port_tx_datagrams_total"), Some(7.0));
    let drops = value(
        &samples,
        "roce_dropped_packets_total",
        ("reason", "bad_icrc"),
    );
    assert_eq!(drops, Some(201.0));
    let qp = |name| value(&samples, name, ("context", "2"));
    assert_eq!(qp("roce_qp_retransmitted_packets_total"), Some(5.0));
    assert_eq!(qp("roce_qp_rate_limit_bytes_per_second"), Some(1e9));
    assert_eq!(qp("roce_qp_round_trip_seconds"), Some(25e-6));
    assert_eq!(
        qp("roce_qp_alpha_ratio"),
        None,
        "unknown values are left out"
    );
    assert_eq!(
        value(&samples, "roce_queue_pairs", ("state", "RTS")),
        Some(1.0)
    );
}

/// Any user can read the metrics over TCP. A forged packet needs the QPN and the PSN.
#[test]
fn metrics_identify_queue_pairs_but_do_not_reveal_their_numbers() {
    let mut device = device(1, "roce_eth0");
    device.qps[0].peer_qpn = Some(0x98_7654);
    device.qps.push(QpSnapshot {
        qpn: 0x1235,
        ..device.qps[0].clone()
    });
    let snapshot = Snapshot {
        devices: vec![device],
        ..Snapshot::default()
    };
    let samples = read(&text(&snapshot));
    let labels = || samples.iter().flat_map(|(_, labels, _)| labels);
    for (name, value) in labels() {
        let value = value.trim_start_matches("0x").trim_start_matches('0');
        for number in [0x1234, 0x1235, 0x98_7654] {
            let written = [format!("{number:x}"), format!("{number}")];
            assert!(!written.contains(&value.to_owned()), "{name}={value}");
        }
    }
    let names = labels().filter(|(name, _)| name == "qp");
    let names: BTreeSet<&String> = names.map(|(_, value)| value).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_process_without_devices_has_no_metrics() {
    assert_eq!(text(&Snapshot::default()), "");
}
