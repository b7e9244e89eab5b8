//! Metrics of devices.

use super::{DeviceSnapshot, Kind, Labels, Text};
use roce_stack::{DropReason, QpState, Stat};
use std::collections::BTreeSet;

pub(super) fn write(text: &mut Text, devices: &[DeviceSnapshot]) {
    let info = devices.iter().map(|device| {
        let labels = Labels::of(device)
            .with("interface", &device.interface)
            .with("datapath", &device.datapath)
            .with("congestion_control", &device.congestion_control);
        (labels, 1.0)
    });
    text.metric(Kind::Gauge, "roce_device_info", "An open device.", info);
    let failed = devices
        .iter()
        .map(|device| (Labels::of(device), f64::from(device.failure.is_some())));
    let help = "Whether the port has failed.";
    text.metric(Kind::Gauge, "roce_device_failed", help, failed);
    write_queue_pairs(text, devices);
    for stat in Stat::ALL {
        let Some((name, help)) = name_of(*stat) else {
            continue;
        };
        let samples = devices.iter().filter_map(|device| {
            let count = *device.counters.get(stat.label())?;
            Some((Labels::of(device), count as f64))
        });
        text.metric(Kind::Counter, name, help, samples);
    }
    let drops = devices.iter().flat_map(|device| {
        DropReason::ALL.iter().filter_map(|reason| {
            let count = *device.drops.get(reason.label())?;
            let labels = Labels::of(device).with("reason", reason.label());
            Some((labels, count as f64))
        })
    });
    let help = "Packets that were received and dropped, by reason.";
    text.metric(Kind::Counter, "roce_dropped_packets_total", help, drops);
    write_port(text, devices);
}

fn write_queue_pairs(text: &mut Text, devices: &[DeviceSnapshot]) {
    const STATES: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];
    let samples = devices.iter().flat_map(|device| {
        STATES.into_iter().map(move |state| {
            let in_it = device.qps.iter().filter(|qp| qp.state == state.name());
            let labels = Labels::of(device).with("state", state.name());
            (labels, in_it.count() as f64)
        })
    });
    let help = "Queue pairs reported below, by state.";
    text.metric(Kind::Gauge, "roce_queue_pairs", help, samples);
    let left_out = devices
        .iter()
        .map(|device| (Labels::of(device), device.qps_left_out as f64));
    let help = "Queue pairs that are not reported.";
    text.metric(Kind::Gauge, "roce_queue_pairs_left_out", help, left_out);
}

/// The counters of ports differ by datapath, so their help text has only the name.
fn write_port(text: &mut Text, devices: &[DeviceSnapshot]) {
    let names: BTreeSet<&String> = devices
        .iter()
        .flat_map(|device| device.port.keys())
        .collect();
    for name in names {
        let samples = devices.iter().filter_map(|device| {
            let count = *device.port.get(name)?;
            Some((Labels::of(device), count as f64))
        });
        let help = format!("The port's counter {name}.");
        let metric = format!("roce_port_{name}_total");
        text.metric(Kind::Counter, &metric, &help, samples);
    }
}

macro_rules! metrics {
    ($($stat:ident: $name:literal, $help:literal;)*) => {
        /// The metric of a counter, and what it counts; `None` for a counter that this table does not
        /// know. A test checks that there is no such counter.
        fn name_of(stat: Stat) -> Option<(&'static str, &'static str)> {
            match stat {
                $(Stat::$stat => Some(($name, $help)),)*
                _ => None,
            }
        }
    };
}

metrics! {
    RxPackets: "roce_received_packets_total", "Packets received for a queue pair with the right ICRC.";
    RxBytes: "roce_received_bytes_total", "Payload bytes received.";
    TxPackets: "roce_sent_packets_total", "Packets sent.";
    TxBytes: "roce_sent_bytes_total", "Payload bytes sent.";
    RxMads: "roce_received_management_datagrams_total", "Packets received for QP1.";
    TxMads: "roce_sent_management_datagrams_total", "Management datagrams sent.";
    Retransmitted: "roce_retransmitted_packets_total", "Packets retransmitted.";
    Timeouts: "roce_ack_timeouts_total", "Local ACK timeouts.";
    SpuriousTimeouts: "roce_spurious_ack_timeouts_total", "Spurious local ACK timeouts: everything had arrived.";
    LateAnswers: "roce_late_answers_total", "Late responses, judged by the measured round-trip time, that were requested again.";
    AcksReceived: "roce_acks_received_total", "Acknowledgements received.";
    AcksSent: "roce_acks_sent_total", "Acknowledgements sent.";
    OutOfOrderKept: "roce_out_of_order_packets_kept_total", "Packets ahead of the expected PSN that were kept until their turn.";
    SequenceNaksReceived: "roce_sequence_naks_received_total", "NAKs for a PSN sequence error received.";
    SequenceNaksSent: "roce_sequence_naks_sent_total", "NAKs for a PSN sequence error sent.";
    RnrNaksReceived: "roce_rnr_naks_received_total", "RNR NAKs received.";
    RnrNaksSent: "roce_rnr_naks_sent_total", "RNR NAKs sent.";
    ImpliedNaks: "roce_implied_naks_total", "Responses found missing because later ones arrived.";
    FatalNaksReceived: "roce_fatal_naks_received_total", "Other NAKs received.";
    FatalNaksSent: "roce_fatal_naks_sent_total", "Other NAKs sent.";
    DuplicateRequests: "roce_duplicate_requests_total", "Duplicate requests received.";
    PsnGuesses: "roce_psn_guesses_total", "Packets with a PSN that the peer can't have sent: somebody guesses.";
    UnfinishedMessages: "roce_unfinished_messages_total", "Messages that arrived only in part.";
    EcnMarked: "roce_ecn_marked_packets_total", "Packets received with the ECN mark for congestion experienced.";
    CnpsReceived: "roce_cnps_received_total", "Congestion notification packets received.";
    CnpsSent: "roce_cnps_sent_total", "Congestion notification packets sent.";
    CnpsSuppressed: "roce_cnps_suppressed_total", "Marked packets for which no notification was sent, because one had just been sent.";
    Unsendable: "roce_unsendable_packets_total", "Packets that the port could not send.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_metric() {
        for stat in Stat::ALL {
            assert!(name_of(*stat).is_some(), "{stat:?}");
        }
    }
}
