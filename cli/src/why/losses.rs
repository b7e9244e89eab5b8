//! Losses without a failed QP: packets of unreliable services, packets that did not leave this
//! host, and requests that still waited at the end.

use crate::top::plain;
use crate::words::counted;
use roce_verbs::observation::{DeviceSnapshot, QpSnapshot, WaitSnapshot};
use roce_verbs::why::packets_not_sent;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Packets or requests that went nowhere, although no QP failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Loss {
    process_id: u32,
    /// `None` if it concerns no device in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// The loss, with its count; `None` if nothing is lost yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    /// Requests and events that were pending when the program ended, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
    /// The likely cause; `None` if `lost` names it.
    likely: Option<Cow<'static, str>>,
    /// The advice.
    advice: Cow<'static, str>,
}

impl Loss {
    /// The losses of a device of this process, the most telling first.
    pub(super) fn of(process_id: u32, device: &DeviceSnapshot) -> Vec<Self> {
        let none = Self {
            process_id,
            device: Some(plain(&device.device, 64)),
            lost: None,
            waits: None,
            likely: None,
            advice: Cow::Borrowed(""),
        };
        let lost = |lost, likely: Option<&'static str>, advice: &'static str| Self {
            lost: Some(lost),
            likely: likely.map(Cow::Borrowed),
            advice: advice.into(),
            ..none.clone()
        };
        let waits = |waits, advice: &'static str| Self {
            waits: Some(waits),
            advice: advice.into(),
            ..none.clone()
        };
        let mut losses = Vec::new();
        for drop in DROPS {
            let number = count(&device.drops, drop.reason);
            if number > 0 {
                losses.push(lost(drop.lost(number), None, drop.advice));
            }
        }
        for packets in packets_not_sent(|name| count(&device.port, name)) {
            losses.push(lost(packets.fact, Some(packets.likely), packets.advice));
        }
        if let Some(qp) = device.qps.iter().find(|qp| is_waiting(qp))
            && count(&device.counters, "rnr_naks_received") > 0
        {
            losses.push(waits(awaited(device, qp), AWAITED_ADVICE));
        }
        if count(&device.counters, "rnr_naks_sent") > 0 {
            losses.push(waits(unready(device), UNREADY_ADVICE));
        }
        if losses.is_empty()
            && let Some(qp) = device.qps.iter().find(|qp| is_unheard(qp))
        {
            losses.push(waits(unheard(qp), UNHEARD_ADVICE));
        }
        losses
    }

    /// The waits of a process. The texts are that process's.
    pub(super) fn of_wait(process_id: u32, wait: &WaitSnapshot) -> Self {
        Self {
            process_id,
            device: None,
            lost: None,
            waits: Some(plain(&wait.what, 1024)),
            likely: wait.likely.as_ref().map(|likely| plain(likely, 256).into()),
            advice: plain(&wait.advice, 512).into(),
        }
    }

    /// Whether it is about something that a process waits for.
    pub(super) fn is_of_process(&self) -> bool {
        self.device.is_none()
    }

    /// Whether packets were lost, and not only requests delayed.
    pub(super) fn is_loss(&self) -> bool {
        self.lost.is_some()
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "device {device} in process {}", self.process_id)?,
            None => write!(f, "process {}", self.process_id)?,
        }
        if let Some(lost) = &self.lost {
            write!(f, "\n  lost      {lost}")?;
        }
        if let Some(waits) = &self.waits {
            write!(f, "\n  waits     {waits}")?;
        }
        if let Some(likely) = &self.likely {
            write!(f, "\n  likely    {likely}")?;
        }
        write!(f, "\n  do        {}", self.advice)
    }
}

/// A reason to drop packets of an unreliable service, or of any QP, without an error.
struct Drop {
    reason: &'static str,
    what: &'static str,
    advice: &'static str,
}

impl Drop {
    fn lost(&self, count: u64) -> String {
        format!("{}: {count} ({})", self.reason, self.what)
    }
}

/// Those that a mistake causes. Packets to QPs that are gone or in another state are no sign of one.
const DROPS: &[Drop] = &[
    Drop {
        reason: "no_receive",
        what: "a message of UC or UD arrived, and no receive was posted",
        advice: "post receives before the peer sends, and more of them: unreliable services do not \
                 retransmit. Or let the sender wait for the receiver",
    },
    Drop {
        reason: "receive_too_small",
        what: "a message of UC or UD was longer than the receive that was next",
        advice: "post receives as long as the longest message, and for UD 40 bytes more; or send \
                 shorter messages",
    },
    Drop {
        reason: "bad_length",
        what: "the payload of a packet of UC or UD did not fit the path MTU or its message",
        advice: "both ends must use the same path_mtu",
    },
    Drop {
        reason: "wrong_qkey",
        what: "the Q_Key of a datagram was not the QP's",
        advice: "both ends must use the same qkey: that of the receiver's QP, in the sender's \
                 requests",
    },
    Drop {
        reason: "wrong_transport",
        what: "a packet was of another transport service than the QP, such as UC and not RC",
        advice: "create the QPs of both ends for the same service",
    },
    Drop {
        reason: "wrong_peer",
        what: "a packet did not come from the address that the QP is connected to",
        advice: "compare the GID that each end has told the other with the GID index that it uses",
    },
    Drop {
        reason: "unknown_qp",
        what: "this process has no QP of the number in the packet",
        advice: "compare the QP numbers that the ends have told each other; the QP may also be \
                 destroyed already",
    },
    Drop {
        reason: "access_denied",
        what: "key, rights or bounds did not allow a WRITE of UC",
        advice: "compare address, length and rkey of the sender with the region, and its rights \
                 with IBV_ACCESS_REMOTE_WRITE",
    },
    Drop {
        reason: "no_group",
        what: "no QP is attached to the multicast group of a datagram",
        advice: "attach the QP by ibv_attach_mcast, or join by rdma_join_multicast",
    },
];

/// Whether the QP has requests that have not completed, and is able to complete them.
fn is_waiting(qp: &QpSnapshot) -> bool {
    qp.state == "RTS" && qp.sends_queued > 0
}

const AWAITED_ADVICE: &str = "post receives at the peer; does it run the program that expects this \
                              one's messages, with a receive queue that is long enough?";

fn awaited(device: &DeviceSnapshot, qp: &QpSnapshot) -> String {
    let naks = count(&device.counters, "rnr_naks_received");
    format!(
        "{} of QP {:#08x}{} had not completed at the end. The peer has answered {} \
         that no receive is posted (RNR NAK)",
        counted(qp.sends_queued, "request"),
        qp.qpn,
        peer(qp),
        counted(naks, "time")
    )
}

const UNREADY_ADVICE: &str = "post receives before the peer sends, and a new one as soon as one \
                              completes; is the peer's program the one that belongs to this one?";

fn unready(device: &DeviceSnapshot) -> String {
    let naks = count(&device.counters, "rnr_naks_sent");
    let posted: u64 = device.qps.iter().map(|qp| qp.receives_queued).sum();
    format!(
        "messages of a peer have found no receive {}, and the peer must send them again (RNR NAK). At \
         the end, {posted} receives were posted",
        counted(naks, "time")
    )
}

/// Whether a QP of an unreliable service has sent packets, and never received one.
fn is_unheard(qp: &QpSnapshot) -> bool {
    let is_unreliable = qp.service == "UC" || qp.service == "UD";
    is_unreliable && qp.state == "RTS" && qp.tx_packets > 0 && qp.rx_packets == 0
}

const UNHEARD_ADVICE: &str = "UC and UD tell the sender nothing of lost messages: the peer's own report \
                              does, so run it with `roce why`, too. If that is empty, does UDP port 4791 \
                              pass, and do the QP number and the GID belong to the peer?";

fn unheard(qp: &QpSnapshot) -> String {
    format!(
        "QP {:#08x}, {}{}, has sent {} and received none",
        qp.qpn,
        plain(&qp.service, 16),
        peer(qp),
        counted(qp.tx_packets, "packet")
    )
}

/// Where the QP's peer is, if it has one. The address comes from another process.
fn peer(qp: &QpSnapshot) -> String {
    let peer = qp.peer.as_deref();
    peer.map_or_else(String::new, |peer| format!(" to {}", plain(peer, 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_verbs::observation::{DropReason, Stat};

    fn device(drops: &[(&str, u64)], counters: &[(&str, u64)]) -> DeviceSnapshot {
        let map = |of: &[(&str, u64)]| -> BTreeMap<String, u64> {
            of.iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        DeviceSnapshot {
            device: "roce_v0".to_owned(),
            drops: map(drops),
            counters: map(counters),
            ..DeviceSnapshot::default()
        }
    }

    /// So that a counter which gets another name is not lost here.
    #[test]
    fn the_reasons_exist() {
        for drop in DROPS {
            let exists = DropReason::ALL.iter().any(|it| it.label() == drop.reason);
            assert!(exists, "{}", drop.reason);
        }
        for name in ["rnr_naks_received", "rnr_naks_sent"] {
            assert!(Stat::ALL.iter().any(|it| it.label() == name), "{name}");
        }
    }

    #[test]
    fn dropped_messages_are_counted_with_advice() {
        let lost = device(&[("no_receive", 7), ("wrong_state", 9)], &[]);
        let [only] = Loss::of(3, &lost).try_into().expect("one");
        assert_eq!(
            only.to_string(),
            format!(
                "device roce_v0 in process 3\n  lost      no_receive: 7 (a message of \
                 UC or UD arrived, and no receive was posted)\n  do        {}",
                DROPS[0].advice
            )
        );
    }

    #[test]
    fn a_qp_waits_for_a_receive_only_while_it_has_requests() {
        let mut of = device(&[], &[("rnr_naks_received", 4)]);
        let qp = |state: &str, sends_queued| QpSnapshot {
            qpn: 0x17,
            state: state.to_owned(),
            peer: Some("10.0.0.2".to_owned()),
            sends_queued,
            ..QpSnapshot::default()
        };
        of.qps = vec![qp("RTS", 0), qp("ERR", 2)];
        assert_eq!(Loss::of(1, &of), []);
        of.qps.push(qp("RTS", 2));
        let losses = Loss::of(1, &of);
        let told = "2 requests of QP 0x000017 to 10.0.0.2 had not completed at the end. The peer has \
                    answered 4 times that no receive is posted (RNR NAK)";
        assert_eq!(losses[0].waits.as_deref(), Some(told));
        assert!(!losses[0].is_loss());
    }

    #[test]
    fn packets_that_did_not_leave_this_host_have_a_cause() {
        let mut of = device(&[], &[]);
        of.port.insert("tx_network_unreachable".to_owned(), 5);
        let losses = Loss::of(1, &of);
        let likely = "this host has no route to the peer";
        assert_eq!(losses[0].likely.as_deref(), Some(likely));
    }

    #[test]
    fn an_unreliable_qp_that_hears_nothing_is_reported_if_nothing_else_is() {
        let mut of = device(&[], &[]);
        let qp = |rx_packets| QpSnapshot {
            qpn: 0x17,
            service: "UD".to_owned(),
            state: "RTS".to_owned(),
            tx_packets: 1,
            rx_packets,
            ..QpSnapshot::default()
        };
        of.qps = vec![qp(1)];
        assert_eq!(Loss::of(1, &of), []);
        of.qps.push(qp(0));
        let losses = Loss::of(1, &of);
        let told = "QP 0x000017, UD, has sent 1 packet and received none";
        assert_eq!(losses[0].waits.as_deref(), Some(told));
        of.drops.insert("no_receive".to_owned(), 1);
        assert!(Loss::of(1, &of).iter().all(Loss::is_loss));
    }
}
