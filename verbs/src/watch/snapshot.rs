//! What a process tells of its devices. The same values travel as JSON and, under other
//! names, in Prometheus text format.

use roce_stack::QpStatus;
use roce_wire::Qpn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All open devices of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The number of the process.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// When this was: seconds since the process first opened a device. Rates are
    /// differences of counters by differences of this.
    pub seconds: f64,
    /// Each open device; one that is open several times is there several times.
    pub devices: Vec<DeviceSnapshot>,
}

/// An open device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSnapshot {
    /// Which of the process's open devices, counted from 1 as they were opened.
    pub context: u64,
    /// The device's name.
    pub device: String,
    /// Its interface's.
    pub interface: String,
    /// How its packets travel: `udp` or `xdp`; `idle` until something needs its datapath.
    pub datapath: String,
    /// How congestion is controlled: `dcqcn`, `delay` or `none`.
    pub congestion_control: String,
    /// Why the port works no more, if it failed.
    pub failure: Option<String>,
    /// What the NIC has counted, by [`Stat::label`](crate::observation::Stat::label).
    pub counters: BTreeMap<String, u64>,
    /// Packets dropped, by [`DropReason::label`](crate::observation::DropReason::label).
    pub drops: BTreeMap<String, u64>,
    /// What the port has counted, see [`Context::port_counters`](crate::Context::port_counters).
    pub port: BTreeMap<String, u64>,
    /// Its QPs, in no order.
    pub qps: Vec<QpSnapshot>,
    /// QPs that are not told of: there are more than a snapshot has room for.
    pub qps_left_out: u64,
}

/// A QP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QpSnapshot {
    /// Its number.
    pub qpn: u32,
    /// Its transport service: `RC`, `UC`, `UD`, `XRC initiator` or `XRC target`.
    pub service: String,
    /// Its state: `RESET`, `INIT`, `RTR`, `RTS`, `SQD`, `SQE` or `ERR`.
    pub state: String,
    /// The peer's address, if it has one peer.
    pub peer: Option<String>,
    /// The peer's QP.
    pub peer_qpn: Option<u32>,
    /// The most payload of its packets.
    pub path_mtu_bytes: u64,
    /// Send requests that have not completed.
    pub sends_queued: u64,
    /// Receive requests that have not completed.
    pub receives_queued: u64,
    /// Bytes that the peer has not acknowledged yet.
    pub in_flight_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their payload.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Their payload.
    pub rx_bytes: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// The rate that it keeps to, in bits a second; none while it is not limited.
    pub rate_bits_per_second: Option<f64>,
    /// The rate that it rises towards, in bits a second.
    pub target_rate_bits_per_second: Option<f64>,
    /// How congested it takes its path for, from 0 to 1.
    pub alpha: Option<f64>,
    /// What it may have in flight by congestion control.
    pub window_bytes: Option<u64>,
    /// The round trip that it aims at.
    pub target_rtt_seconds: Option<f64>,
    /// The usual round trip.
    pub rtt_seconds: Option<f64>,
    /// The shortest.
    pub min_rtt_seconds: Option<f64>,
    /// Packets that came with the mark "congestion experienced".
    pub ecn_marked: u64,
    /// Congestion notification packets sent.
    pub cnps_sent: u64,
    /// Marked packets for which none was sent.
    pub cnps_suppressed: u64,
    /// Congestion notification packets received.
    pub cnps_received: u64,
}

impl QpSnapshot {
    pub(super) fn of(qpn: Qpn, status: &QpStatus) -> Self {
        let QpStatus {
            traffic,
            congestion,
            ..
        } = status;
        let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
        Self {
            qpn: qpn.get(),
            service: status.kind.to_string(),
            state: status.state.name().to_owned(),
            peer: status.path.map(|path| path.dst.to_string()),
            peer_qpn: status.peer.map(Qpn::get),
            path_mtu_bytes: status.path_mtu.bytes() as u64,
            sends_queued: status.sends as u64,
            receives_queued: status.receives as u64,
            in_flight_bytes: status.in_flight_bytes,
            tx_packets: traffic.tx_packets,
            tx_bytes: traffic.tx_bytes,
            rx_packets: traffic.rx_packets,
            rx_bytes: traffic.rx_bytes,
            retransmitted: traffic.retransmitted,
            rate_bits_per_second: congestion.rate,
            target_rate_bits_per_second: congestion.target,
            alpha: congestion.alpha,
            window_bytes: congestion.window_bytes,
            target_rtt_seconds: seconds(congestion.target_rtt),
            rtt_seconds: seconds(congestion.smoothed_rtt),
            min_rtt_seconds: seconds(congestion.min_rtt),
            ecn_marked: congestion.ecn_marked,
            cnps_sent: congestion.cnps_sent,
            cnps_suppressed: congestion.cnps_suppressed,
            cnps_received: congestion.cnps_received,
        }
    }
}
