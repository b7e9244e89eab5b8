//! Soft-RoCE can stop in the middle of a message, for good.
//!
//! rxe's requester compares the distance of its next PSN from the last acknowledged one, and the
//! number of packets in flight, with limits. If one is exceeded, it sets a flag, and the code that
//! handles acknowledgements wakes it up (rxe_req.c: `wait_psn`, `need_req_skb`). The two steps are
//! not atomic: if the last acknowledgement arrives in between, nothing wakes up the requester, and
//! as nothing is outstanding, no timer runs either. The stall needs a guest whose processors are
//! descheduled at the wrong moment: with six of them on two cores of the host, it occurred twice in
//! an hour.
//!
//! The stall can be proved by the guest's report on its QPs and the capture of its packets and of our
//! answers: the PSN that it sends next follows the last one that arrived, which is in the middle of a
//! message, and we have acknowledged it.

use std::path::Path;
use std::time::Duration;

use roce_tests::decode::decode;
use roce_tests::lab::{GUEST_INTERFACE, GUEST_RDMA_DEVICE, Lab};
use serde_json::Value;

/// The prefix of the line with the guest's queue pairs.
const QPS: &str = "queue pairs: ";

/// The state of the guest, for diagnosis: its QPs, the counters of its device, whether its network
/// card moves, and where the processes of `program` wait.
pub(crate) fn describe(lab: &Lab, program: &str) -> String {
    let look = format!(
        "echo \"{QPS}$(rdma -j resource show qp)\"; \
         cd /sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1/hw_counters && grep . *; \
         ip neigh; ip -s link show {GUEST_INTERFACE}; tc -s qdisc show dev {GUEST_INTERFACE}; \
         grep virtio /proc/interrupts; \
         for p in $(pidof {program}); do cat /proc/$p/wchan /proc/$p/stack; done"
    );
    let said = lab
        .guest(["sh", "-c", &look])
        .output(Duration::from_secs(30));
    match said {
        Ok(output) => output.stdout_text() + &output.stderr_text(),
        Err(error) => format!("the guest does not answer: {error}"),
    }
}

/// Whether a QP in the guest has stopped, according to our capture and
/// [`describe`].
pub(super) fn is_theirs(capture: &Path, guest: &str) -> bool {
    let Some(qps) = guest_qps(guest) else {
        return false;
    };
    // A program that has not opened its device has captured nothing.
    if qps.is_empty() || !capture.is_file() {
        return false;
    }
    let packets = decode(capture);
    qps.iter().any(|qp| has_stopped(qp, &packets))
}

/// The guest's QPs, in what [`describe`] returned.
fn guest_qps(guest: &str) -> Option<Vec<Value>> {
    let qps = guest.lines().find_map(|line| line.strip_prefix(QPS))?;
    serde_json::from_str(qps).ok()
}

/// Whether the PSN that a QP sends next follows the last one that arrived, which was in the middle
/// of a message, and we have acknowledged all packets that requested it.
fn has_stopped(qp: &Value, packets: &[Value]) -> bool {
    let number = |name| qp[name].as_u64();
    let (Some(theirs), Some(ours), Some(next)) = (number("lqpn"), number("rqpn"), number("sq-psn"))
    else {
        return false;
    };
    let to = |qpn: u64| {
        packets.iter().filter(move |packet| {
            // Dropped packets have a comment.
            packet["dest_qpn"] == qpn && packet["comments"].is_null()
        })
    };
    let psn = |packet: &Value| packet["psn"].as_u64().unwrap_or_default();
    let requests = || to(ours).filter(|packet| is_request(opcode(packet)));
    let Some(last) = requests().max_by_key(|packet| behind(next, psn(packet)).map(|n| !n)) else {
        return false;
    };
    if behind(next, psn(last)) != Some(1) || !is_continued(opcode(last)) {
        return false;
    }
    let asked = requests().filter(|packet| packet["ack_req"] == true);
    let asked = asked.filter_map(|packet| behind(next, psn(packet))).min();
    let answers = to(theirs).filter(|packet| is_answer(packet));
    let answered = answers.filter_map(|packet| behind(next, psn(packet))).min();
    match (asked, answered) {
        (None, _) => true,
        (Some(asked), Some(answered)) => answered <= asked,
        (Some(_), None) => false,
    }
}

fn opcode(packet: &Value) -> u64 {
    packet["opcode"].as_u64().unwrap_or(u64::MAX)
}

/// The distance by which a PSN is behind another one; `None` if it is not (IBTA 1.7, 9.7.2).
fn behind(next: u64, psn: u64) -> Option<u64> {
    let distance = next.wrapping_sub(psn) & 0xff_ffff;
    (1..1 << 23).contains(&distance).then_some(distance)
}

/// Requests of RC and UC (IBTA 1.7, 9.2.1, table 38).
fn is_request(opcode: u64) -> bool {
    matches!(opcode, 0x00..=0x0c | 0x13..=0x2b)
}

/// First and middle packets of SEND and WRITE.
fn is_continued(opcode: u64) -> bool {
    matches!(opcode & 0x1f, 0x00 | 0x01 | 0x06 | 0x07)
}

/// Packets that acknowledge: responses, except NAKs.
fn is_answer(packet: &Value) -> bool {
    match opcode(packet) {
        0x0d..=0x10 | 0x12 => true,
        // The upper three bits of an ACK's syndrome are 0 (IBTA 1.7, 9.3.5.2, table 46).
        0x11 => packet["aeth"]["syndrome"]
            .as_u64()
            .is_some_and(|s| s & 0xe0 == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn qp(next: u32) -> Value {
        json!({ "lqpn": 23, "rqpn": 4_796_728, "sq-psn": next })
    }

    fn request(opcode: u8, psn: u32, ack_req: bool) -> Value {
        json!({ "dest_qpn": 4_796_728, "opcode": opcode, "psn": psn, "ack_req": ack_req })
    }

    fn ack(psn: u32) -> Value {
        json!({ "dest_qpn": 23, "opcode": 0x11, "psn": psn, "aeth": { "syndrome": 31 } })
    }

    #[test]
    fn a_qp_that_stops_within_a_message_has_stalled() {
        // The PSNs wrap: a first packet, and two of the middle.
        let come = [
            request(0, 0xff_fffe, false),
            request(1, 0xff_ffff, true),
            request(1, 0, false),
        ];
        let answered = [&come[..], &[ack(0xff_ffff)]].concat();
        assert!(has_stopped(&qp(1), &answered));
        // Packets in flight are retransmitted.
        assert!(!has_stopped(&qp(2), &answered));
        // The requester waits for our acknowledgement.
        assert!(!has_stopped(&qp(1), &come));
        let early = [&come[..], &[ack(0xff_fffe)]].concat();
        assert!(!has_stopped(&qp(1), &early));
        // At the end of a message it may have nothing to send.
        let ended = [&answered[..], &[request(2, 1, false)]].concat();
        assert!(!has_stopped(&qp(2), &ended));
        // Packets that we have dropped do not count.
        let mut dropped = answered.clone();
        dropped[2]["comments"] = json!(["dropped: out of sequence"]);
        assert!(!has_stopped(&qp(1), &dropped));
        assert!(!has_stopped(&qp(1), &[]));
    }
    /// The guest prints the numbers that the proof needs.
    #[test]
    fn the_guest_prints_its_psns() {
        let Some(lab) = Lab::get_or_skip() else {
            return;
        };
        let mut server = lab
            .guest(["stdbuf", "-o0", "ibv_rc_pingpong", "-g", "1"])
            .spawn()
            .expect("it starts");
        let address = server
            .wait_for_line("local address:", Duration::from_secs(60))
            .expect("its address");
        let (_, qpn) = address.split_once("QPN 0x").expect("a QPN");
        let qpn = u64::from_str_radix(&qpn[..6], 16).expect("a number");
        let qps = guest_qps(&describe(&lab, "ibv_rc_pingpong")).expect("QPs");
        let qp = qps.iter().find(|qp| qp["lqpn"] == qpn);
        let qp = qp.unwrap_or_else(|| panic!("no QP {qpn} in {qps:?}"));
        assert!(qp["sq-psn"].is_u64(), "{qp}");
    }
}
