//! Violations that the oracle must detect in multicast groups, limits of rates, and CNPs.

use super::assert_violation;
use crate::oracle::*;
use roce_stack::{Buffer, DatagramSource, Duration, Instant, NetworkHeader, RateLimit, WcStatus};
use roce_wire::Qpn;
use std::sync::Arc;

const LEN: usize = 4;

fn area() -> Area {
    Area::new(Arc::new(Buffer::new(256).expect("a buffer")))
}

fn network() -> Network {
    Network {
        header: NetworkHeader::Grh,
        from: [10, 0, 0, 1].into(),
        to: [239, 0, 0, 1].into(),
    }
}

/// The header of [`network`].
fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    (header[0], header[6]) = (0x60, 0x1b);
    for (at, last) in [(8, [10, 0, 0, 1]), (24, [239, 0, 0, 1])] {
        header[at + 10..at + 12].fill(0xff);
        header[at + 12..at + 16].copy_from_slice(&last);
    }
    header
}

/// A member of group 0 with two receives, whose memory is returned.
fn member() -> (Oracle, Arc<Buffer>) {
    let buffer = Arc::new(Buffer::new(256).expect("a buffer"));
    let mut oracle = Oracle::new();
    oracle.multicast_causes(Causes::default());
    oracle.member_created(Area::new(Arc::clone(&buffer)));
    oracle.member_attached(0, 0);
    for wr_id in 0..2 {
        let at = 100 * wr_id as usize;
        let recv = PostedRecv { at, len: 60 };
        oracle.member_posted(0, wr_id, recv);
    }
    (oracle, buffer)
}

fn datagram(group: usize, has_key: bool) -> GroupDatagram {
    GroupDatagram {
        sender: 0,
        qpn: 8,
        group,
        network: network(),
        bytes: [7; LEN].into(),
        imm: Some(1),
        has_key,
    }
}

/// Receive `wr_id` gets the datagram.
fn arrives(oracle: &mut Oracle, buffer: &Buffer, wr_id: u64) -> Verdict {
    let at = 100 * wr_id as usize;
    buffer.write(at, &header()).expect("in bounds");
    let after = at + HEADER_BYTES;
    buffer.write(after, &[7; LEN]).expect("in bounds");
    let done = Completion {
        wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        byte_len: (HEADER_BYTES + LEN) as u32,
        qpn: Qpn::from_bits(9),
        imm: Some(1),
        invalidated_rkey: None,
        source: Some(DatagramSource {
            qpn: Qpn::from_bits(8),
            pkey_index: 0,
            grh: true,
            network: NetworkHeader::Grh,
        }),
    };
    oracle.datagram_arrived(0, &done)
}

#[test]
fn a_datagram_to_a_group_arrives_once() {
    let (mut oracle, buffer) = member();
    oracle.datagram_posted(datagram(0, true));
    assert_violation(oracle.check_multicast_idle(), "never arrived");
    arrives(&mut oracle, &buffer, 0).expect("it was sent");
    oracle.check_multicast_idle().expect("it has arrived");
    assert_violation(arrives(&mut oracle, &buffer, 1), "arrived 2 times");
}

#[test]
fn only_members_with_the_key_get_a_datagram() {
    let (mut oracle, buffer) = member();
    oracle.datagram_posted(datagram(1, true));
    oracle.check_multicast_idle().expect("it is not a member");
    let verdict = arrives(&mut oracle, &buffer, 0);
    assert_violation(verdict, "a group without this member");

    let (mut oracle, buffer) = member();
    oracle.datagram_posted(datagram(0, false));
    let verdict = arrives(&mut oracle, &buffer, 0);
    assert_violation(verdict, "another Q_Key");

    let (mut oracle, buffer) = member();
    oracle.member_detached(0, 0);
    oracle.datagram_posted(datagram(0, true));
    let verdict = arrives(&mut oracle, &buffer, 0);
    assert_violation(verdict, "a group without this member");
}

#[test]
fn a_datagram_has_its_header_and_nothing_behind_it() {
    let (mut oracle, buffer) = member();
    oracle.datagram_posted(GroupDatagram {
        network: Network {
            from: [10, 0, 0, 2].into(),
            ..network()
        },
        ..datagram(0, true)
    });
    let verdict = arrives(&mut oracle, &buffer, 0);
    assert_violation(verdict, "lacks the header");

    let (mut oracle, buffer) = member();
    oracle.datagram_posted(datagram(0, true));
    buffer.write(HEADER_BYTES + LEN, &[1]).expect("in bounds");
    let verdict = arrives(&mut oracle, &buffer, 0);
    assert_violation(verdict, "holds more");
}

fn pair() -> Oracle {
    pair_with(Causes::default())
}

fn pair_with(causes: Causes) -> Oracle {
    let mut oracle = Oracle::new();
    let areas = || FlowAreas {
        out: area(),
        target: area(),
        inbox: area(),
    };
    let ends = Ends::default();
    oracle.connected(0, ends, causes, [areas(), areas()]);
    oracle
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

#[test]
fn a_qp_keeps_to_its_limit() {
    let mut oracle = pair();
    let limit = RateLimit {
        kilobits_per_second: 8_000,
        max_burst_bytes: 1,
        typical_packet_bytes: 1,
    };
    // One byte a microsecond, and two packets at once.
    oracle.rate_limited((0, 0), (at(0), 100), limit, 1000);
    oracle.bytes_sent(0, 0, at(10), 2100).expect("two packets");
    oracle.bytes_sent(0, 0, at(1010), 3100).expect("the rate");
    let verdict = oracle.bytes_sent(0, 0, at(1020), 4100);
    assert_violation(verdict, "ahead of its limit");
}

#[test]
fn cnps_have_a_cause_and_a_distance() {
    let mut oracle = pair();
    let period = Duration::from_micros(50);
    for (time, sent) in [(10, 1), (60, 1), (61, 2)] {
        let verdict = oracle.cnps_sent((0, 0), at(time), sent, period);
        verdict.expect("far enough");
    }
    let verdict = oracle.cnps_sent((0, 0), at(80), 3, period);
    assert_violation(verdict, "1 more CNPs");

    let one = CongestionCounts {
        marked: 1,
        cnps_sent: 1,
        ..CongestionCounts::default()
    };
    let other = CongestionCounts {
        cnps_received: 1,
        ..CongestionCounts::default()
    };
    let none = CongestionCounts::default();
    let mut limits = CongestionLimits {
        any_marked: true,
        has_ecn: true,
    };
    let fine = oracle.check_congestion(0, [one, other], limits);
    fine.expect("a mark, and a CNP for it");
    let verdict = oracle.check_congestion(0, [none, other], limits);
    assert_violation(verdict, "did not send");
    let causes = Causes {
        numbers_again: true,
        ..Causes::default()
    };
    let again = pair_with(causes).check_congestion(0, [none, other], limits);
    again.expect("a CNP for an earlier pair");
    limits.has_ecn = false;
    let verdict = oracle.check_congestion(0, [one, other], limits);
    assert_violation(verdict, "without cause");
}
