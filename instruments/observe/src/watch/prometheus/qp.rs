//! Metrics of queue pairs.
//!
//! Any user of the host can read metrics. Who knows a QPN can forge packets to the QP, and has to
//! guess only the PSN. So the metrics identify QPs by other numbers, and `roce top`, which only the
//! process's user can run, shows the QPNs.

use super::super::snapshot::QpSnapshot;
use super::{DeviceSnapshot, Kind, Labels, Text};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

const BITS: f64 = 8.0;

/// A metric: its kind, its name, its help text, and how to read its value, if the QP has one.
type Metric = (
    Kind,
    &'static str,
    &'static str,
    fn(&QpSnapshot) -> Option<f64>,
);

#[rustfmt::skip]
const METRICS: &[Metric] = &[
    (Kind::Counter, "roce_qp_sent_packets_total", "Packets sent.",
        |qp| Some(qp.tx_packets as f64)),
    (Kind::Counter, "roce_qp_sent_bytes_total", "Payload bytes sent.",
        |qp| Some(qp.tx_bytes as f64)),
    (Kind::Counter, "roce_qp_received_packets_total", "Packets received with the right ICRC.",
        |qp| Some(qp.rx_packets as f64)),
    (Kind::Counter, "roce_qp_received_bytes_total", "Payload bytes received.",
        |qp| Some(qp.rx_bytes as f64)),
    (Kind::Counter, "roce_qp_retransmitted_packets_total", "Packets retransmitted.",
        |qp| Some(qp.retransmitted as f64)),
    (Kind::Counter, "roce_qp_ecn_marked_packets_total", "Packets received with the ECN mark for congestion experienced.",
        |qp| Some(qp.ecn_marked as f64)),
    (Kind::Counter, "roce_qp_cnps_received_total", "Congestion notification packets received.",
        |qp| Some(qp.cnps_received as f64)),
    (Kind::Counter, "roce_qp_cnps_sent_total", "Congestion notification packets sent.",
        |qp| Some(qp.cnps_sent as f64)),
    (Kind::Counter, "roce_qp_cnps_suppressed_total", "Marked packets for which no notification was sent.",
        |qp| Some(qp.cnps_suppressed as f64)),
    (Kind::Gauge, "roce_qp_rate_limit_bytes_per_second", "The rate limit, while the rate is limited.",
        |qp| qp.rate_bits_per_second.map(|rate| rate / BITS)),
    (Kind::Gauge, "roce_qp_target_rate_bytes_per_second", "The target rate, while the rate is limited.",
        |qp| qp.target_rate_bits_per_second.map(|rate| rate / BITS)),
    (Kind::Gauge, "roce_qp_alpha_ratio", "DCQCN's estimate of congestion on the path, from 0 to 1.",
        |qp| qp.alpha),
    (Kind::Gauge, "roce_qp_window_bytes", "The congestion window.",
        |qp| qp.window_bytes.map(|bytes| bytes as f64)),
    (Kind::Gauge, "roce_qp_in_flight_bytes", "Bytes that the peer has not acknowledged yet.",
        |qp| Some(qp.in_flight_bytes as f64)),
    (Kind::Gauge, "roce_qp_round_trip_seconds", "The smoothed round-trip time.",
        |qp| qp.rtt_seconds),
    (Kind::Gauge, "roce_qp_shortest_round_trip_seconds", "The shortest round-trip time.",
        |qp| qp.min_rtt_seconds),
    (Kind::Gauge, "roce_qp_target_round_trip_seconds", "The target round-trip time.",
        |qp| qp.target_rtt_seconds),
    (Kind::Gauge, "roce_qp_send_requests", "Send requests that have not completed.",
        |qp| Some(qp.sends_queued as f64)),
    (Kind::Gauge, "roce_qp_receive_requests", "Receive requests of the QP's own queue that have not completed.",
        |qp| Some(qp.receives_queued as f64)),
];

pub(super) fn write(text: &mut Text, devices: &[DeviceSnapshot]) {
    let all = || devices.iter().flat_map(qps_of);
    let info = all().map(|(device, qp)| {
        let peer = qp.peer.clone().unwrap_or_default();
        let labels = labels(device, qp)
            .with("service", &qp.service)
            .with("state", &qp.state)
            .with("peer", peer);
        (labels, 1.0)
    });
    text.metric(Kind::Gauge, "roce_qp_info", "A queue pair.", info);
    for &(kind, name, help, value) in METRICS {
        let samples = all().filter_map(|(device, qp)| Some((labels(device, qp), value(qp)?)));
        text.metric(kind, name, help, samples);
    }
}

fn qps_of(device: &DeviceSnapshot) -> impl Iterator<Item = (&DeviceSnapshot, &QpSnapshot)> {
    device.qps.iter().map(move |qp| (device, qp))
}

fn labels<'a>(device: &'a DeviceSnapshot, qp: &QpSnapshot) -> Labels<'a> {
    Labels::of(device).with("qp", pseudonym(qp.qpn))
}

/// A number that stands for a QPN while the process runs, and does not reveal it.
fn pseudonym(qpn: u32) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let hash = KEY.get_or_init(RandomState::new).hash_one(qpn);
    format!("{hash:016x}")
}
