//! What a device's counters show about a failure.

use roce_stack::{Cause, DropReason, Failure, Nic, QpStatus};

/// The counters that bear on the failure, in words, the most telling first.
pub(crate) fn evidence(nic: &Nic, failure: &Failure) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(status) = nic.qp_status(failure.at, failure.qpn) {
        lines.push(traffic(&status));
        lines.extend(about_cause(&status, failure));
    }
    lines.extend(drops(nic));
    lines
}

fn packets(count: u64) -> String {
    match count {
        0 => "no packet".to_owned(),
        1 => "1 packet".to_owned(),
        count => format!("{count} packets"),
    }
}

fn traffic(status: &QpStatus) -> String {
    let traffic = &status.traffic;
    let (sent, received) = (packets(traffic.tx_packets), packets(traffic.rx_packets));
    match traffic.retransmitted {
        0 => format!("the QP has sent {sent} and received {received}"),
        again => format!("the QP has sent {sent}, {again} of them again, and received {received}"),
    }
}

fn about_cause(status: &QpStatus, failure: &Failure) -> Option<String> {
    let (sends, receives) = failure.queued;
    match failure.cause {
        Cause::NoAnswer { .. } => Some(format!(
            "its path MTU is {} bytes, and {sends} send requests had not completed",
            status.path_mtu.bytes()
        )),
        Cause::AlwaysLost { .. } | Cause::ReceiverNotReady { .. } => {
            Some(format!("{sends} send requests had not completed"))
        }
        Cause::MessageTooLong { .. } => Some(format!(
            "{receives} more receive requests were in its own queue"
        )),
        _ => None,
    }
}

/// The packets that the device has dropped, by reason.
fn drops(nic: &Nic) -> Option<String> {
    let counters = nic.counters();
    let mut reasons: Vec<_> = DropReason::ALL
        .iter()
        .map(|reason| (counters.drops(*reason), reason.label()))
        .filter(|(count, _)| *count > 0)
        .collect();
    reasons.sort_by_key(|(count, _)| core::cmp::Reverse(*count));
    let words: Vec<_> = reasons
        .into_iter()
        .map(|(count, label)| format!("{label}: {count}"))
        .collect();
    (!words.is_empty()).then(|| {
        format!(
            "the device has dropped these packets since it was opened: {}",
            words.join(", ")
        )
    })
}
