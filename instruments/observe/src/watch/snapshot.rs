//! The data about its devices that a process shows to watchers. The same values travel as JSON and,
//! under other names, in Prometheus text format.

use super::waits::WaitSnapshot;
use crate::InWords;
use crate::why::QpEventText;
use roce_stack::{Failure, QpStatus, Recorded};
use roce_wire::Qpn;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All open devices of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The process ID.
    pub pid: u32,
    /// The name of its program, as `ps` shows it.
    pub command: String,
    /// The time of the snapshot: seconds since the process first opened a device. A rate is the
    /// difference of two counter values divided by the difference of these.
    pub seconds: f64,
    /// The open devices. A device that is open several times appears several times.
    pub devices: Vec<DeviceSnapshot>,
    /// The waits for something that a peer or the program itself must do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitSnapshot>,
}

/// An open device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSnapshot {
    /// The number of this context, counted from 1 in the order of opening.
    pub context: u64,
    /// The device's name.
    pub device: String,
    /// The interface's name.
    pub interface: String,
    /// The datapath: `udp` or `xdp`; `idle` until something needs it.
    pub datapath: String,
    /// The congestion control: `dcqcn`, `delay` or `none`.
    pub congestion_control: String,
    /// Why the port has failed, if it has.
    pub failure: Option<String>,
    /// The NIC's counters, by [`Stat::label`](roce_stack::Stat::label).
    pub counters: BTreeMap<String, u64>,
    /// Packets dropped, by [`DropReason::label`](roce_stack::DropReason::label).
    pub drops: BTreeMap<String, u64>,
    /// The port's counters, see [`Port::each_counter`](roce_port::Port::each_counter).
    pub port: BTreeMap<String, u64>,
    /// Its QPs, in no particular order.
    pub qps: Vec<QpSnapshot>,
    /// The number of QPs that are left out because a snapshot has too many.
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
    /// The peer's address, if the QP has one peer.
    pub peer: Option<String>,
    /// The number of the peer's QP.
    pub peer_qpn: Option<u32>,
    /// The maximum payload of a packet, in bytes.
    pub path_mtu_bytes: u64,
    /// The number of send requests that have not completed.
    pub sends_queued: u64,
    /// The number of receive requests that have not completed.
    pub receives_queued: u64,
    /// Bytes in flight, which the peer has not acknowledged yet.
    pub in_flight_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Payload bytes sent.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Payload bytes received.
    pub rx_bytes: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// The QP's rate, in bits per second; `None` while the rate is not limited.
    pub rate_bits_per_second: Option<f64>,
    /// The target rate of congestion control, in bits per second.
    pub target_rate_bits_per_second: Option<f64>,
    /// Congestion control's estimate of the congestion on the path, from 0 to 1.
    pub alpha: Option<f64>,
    /// The congestion window: the maximum number of bytes in flight.
    pub window_bytes: Option<u64>,
    /// The target round-trip time.
    pub target_rtt_seconds: Option<f64>,
    /// The smoothed round-trip time.
    pub rtt_seconds: Option<f64>,
    /// The shortest round-trip time.
    pub min_rtt_seconds: Option<f64>,
    /// Packets received with the ECN mark "congestion experienced".
    pub ecn_marked: u64,
    /// Congestion notification packets sent.
    pub cnps_sent: u64,
    /// Marked packets for which no notification was sent.
    pub cnps_suppressed: u64,
    /// Congestion notification packets received.
    pub cnps_received: u64,
    /// Why it failed, if it has: the cause with its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The [code](crate::why::Cause::code) of the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_code: Option<u32>,
    /// Its last events, oldest first, if it has failed. A device shows those of a few QPs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<QpEventText>,
}

impl QpSnapshot {
    pub(super) fn of(
        qpn: Qpn,
        status: &QpStatus,
        failure: Option<&Failure>,
        recorded: &[Recorded],
    ) -> Self {
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
            why: failure.map(|failure| InWords(&failure.cause).to_string()),
            why_code: failure.map(|failure| failure.cause.code()),
            events: failure.map_or_else(Vec::new, |failure| QpEventText::all(failure.at, recorded)),
        }
    }
}
