//! Whether the packet that nobody answers is larger than those that were answered: then, a link on the
//! way may not carry it, and tell nobody.

use super::path::smallest_headers;
use super::{Finding, Meaning};
use roce_stack::{Failure, QpStatus};
use std::net::IpAddr;

/// Every link of IPv6, and in practice of IPv4, carries packets of this length.
const ALWAYS_CARRIED: usize = 1280;

const BLACK_HOLE: Meaning = Meaning {
    likely: "a link on the way does not carry packets of the QP's path MTU, and no router says so",
    advice: "connect with a smaller path_mtu, or raise the MTU of the links on the way, and let ICMP \
             \"fragmentation needed\" and \"packet too big\" through",
};

/// The evidence in the length of the packet without an answer. A short one shows nothing.
pub(super) fn unanswered(status: &QpStatus, failure: &Failure) -> Option<Finding> {
    let (path, request) = (status.path?, failure.request?);
    if path.dst.is_loopback() {
        return None;
    }
    let mtu = status.path_mtu.bytes();
    let payload = |len: u32| usize::try_from(len).unwrap_or(mtu).min(mtu);
    let packet = Packet {
        dst: path.dst,
        payload: payload(request.len),
        answered: payload(status.longest_answered),
    };
    packet.finding()
}

/// The packet without an answer.
struct Packet {
    dst: IpAddr,
    payload: usize,
    /// The payload of the largest packet that was answered.
    answered: usize,
}

impl Packet {
    fn finding(&self) -> Option<Finding> {
        let Self {
            dst,
            payload,
            answered,
        } = *self;
        let len = payload + smallest_headers(dst);
        if len <= ALWAYS_CARRIED || answered >= payload {
            return None;
        }
        let answered_before = match answered {
            0 => "none of any size has been answered before".to_owned(),
            answered => format!("the largest that was answered has {answered} bytes of payload"),
        };
        // An echo request has headers of IP and ICMP, of 8 bytes.
        let (ping, ip) = match dst {
            IpAddr::V4(_) => ("ping -M do", 20),
            IpAddr::V6(_) => ("ping -6 -M do", 40),
        };
        let echo = len - ip - 8;
        Some(Finding {
            fact: format!(
                "the packet has at least {len} bytes, and {answered_before}: `{ping} -s {echo} {dst}` \
                 shows whether the path carries it"
            ),
            // Without an answer to a smaller packet, anything may be wrong.
            meaning: (answered > 0).then_some(BLACK_HOLE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(payload: usize, answered: usize) -> Option<Finding> {
        let dst = [10, 0, 0, 2].into();
        let packet = Packet {
            dst,
            payload,
            answered,
        };
        packet.finding()
    }

    #[test]
    fn a_path_that_answers_small_packets_only_is_a_black_hole() {
        let found = finding(4096, 5).expect("found");
        assert_eq!(found.meaning, Some(BLACK_HOLE));
        assert_eq!(
            found.fact,
            "the packet has at least 4140 bytes, and the largest that was answered has 5 bytes of \
             payload: `ping -M do -s 4112 10.0.0.2` shows whether the path carries it"
        );
    }

    #[test]
    fn without_an_answer_the_length_is_a_fact_only() {
        let found = finding(4096, 0).expect("found");
        assert_eq!(found.meaning, None);
        assert!(found.fact.contains("none of any size"), "{}", found.fact);
    }

    #[test]
    fn a_length_that_was_answered_or_is_always_carried_shows_nothing() {
        assert_eq!(finding(4096, 4096), None);
        assert_eq!(finding(1024, 5), None);
    }
}
