//! Evidence from the device's own counters.

use super::{Finding, Meaning};
use roce_stack::{Cause, DropReason, Failure, Nic, QpStatus};

/// The traffic of the QP, and the numbers that belong to its cause.
pub(super) fn about_qp(status: &QpStatus, failure: &Failure) -> impl Iterator<Item = Finding> {
    let about_cause = about_cause(status, failure).map(Finding::fact);
    [Some(traffic(status, failure)), about_cause]
        .into_iter()
        .flatten()
}

fn traffic(status: &QpStatus, failure: &Failure) -> Finding {
    let traffic = &status.traffic;
    let again = match traffic.retransmitted {
        0 => String::new(),
        again => format!(", {again} of them again,"),
    };
    // The explanation is written before the NAK is sent.
    let follows = match status.nak_follows {
        true => "; it now answers with a NAK",
        false => "",
    };
    let fact = format!(
        "the QP has sent {}{again} and received {}{follows}",
        count(traffic.tx_packets, "packet"),
        count(traffic.rx_packets, "packet")
    );
    let is_unheard = matches!(
        failure.cause,
        Cause::NoAnswer {
            ever_answered: false,
            ..
        }
    );
    let meaning = (is_unheard && traffic.rx_packets > 0).then_some(ONE_WAY);
    Finding { fact, meaning }
}

const ONE_WAY: Meaning = Meaning {
    likely: "packets reach this QP, but none of its own reaches the peer's QP",
    advice: "look for what drops packets in one direction only: a firewall at the peer or on the \
             way, or faults that were asked for there; and compare the QP number and the GID of the \
             peer with those that this QP has",
};

/// A number of things, in words.
fn count(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        0 => format!("no {thing}"),
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

fn about_cause(status: &QpStatus, failure: &Failure) -> Option<String> {
    let (sends, receives) = failure.queued;
    let sends = || {
        let sends = count(sends as u64, "send request");
        format!("{sends} had not completed")
    };
    match failure.cause {
        Cause::NoAnswer { .. } => Some(format!(
            "its path MTU is {} bytes, and {}",
            status.path_mtu.bytes(),
            sends()
        )),
        Cause::AlwaysLost { .. } | Cause::ReceiverNotReady { .. } => Some(sends()),
        Cause::MessageTooLong { .. } => {
            let receives = count(receives as u64, "more receive request");
            Some(format!("its own queue had {receives}"))
        }
        _ => None,
    }
}

/// The packets that the device has dropped, by reason.
pub(super) fn drops(nic: &Nic) -> Option<Finding> {
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
        Finding::fact(format!(
            "the device has dropped these packets since it was opened: {}",
            words.join(", ")
        ))
    })
}
