use roce_wire::{Credits, ExtHeaders, NakCode, Opcode, PacketRepr, Psn, RnrTimer, Syndrome};

use super::sequence::{Arrival, Requests, Responses};
use super::{Flow, FlowTable, Message, NakKind};
use crate::decode::capture::{Comments, Record, Timestamp};
use crate::decode::packet::Decoder;
use crate::decode::testing::{Sender, packet, request, response};

/// A table after these frames, 1 ms apart.
fn table_of(limit: usize, frames: &[Vec<u8>]) -> FlowTable {
    let mut table = FlowTable::new(limit);
    let mut decoder = Decoder::new(&[]);
    for (i, frame) in (0..).zip(frames) {
        let record = Record {
            time: Some(Timestamp::new(0, 1_000_000 * i)),
            link_type: 1,
            wire_len: frame.len() as u32,
            data: frame,
            comments: Comments::NONE,
        };
        let other = decoder.decode::<()>(&record, 1, |packet| {
            table.add(packet, false);
            Ok(())
        });
        assert_eq!(other, Ok(None));
    }
    table
}

fn there(repr: PacketRepr, payload_len: usize) -> Vec<u8> {
    Sender::v4(false).frame(repr, payload_len)
}

fn back(repr: PacketRepr, payload_len: usize) -> Vec<u8> {
    Sender::v4(true).frame(repr, payload_len)
}

/// A SEND of one packet to queue pair 2.
fn send(psn: u32) -> Vec<u8> {
    there(packet(Opcode::RC_SEND_ONLY, 2, psn), 100)
}

fn ack(qpn: u32, psn: u32) -> Vec<u8> {
    let syndrome = Syndrome::Ack(Credits::INVALID);
    back(response(Opcode::RC_ACKNOWLEDGE, qpn, psn, syndrome), 0)
}

fn count(flow: &Flow, kind: Message) -> u64 {
    flow.counters.messages[kind as usize]
}

/// The classification of each request's PSN, for SENDs.
fn arrivals(psns: &[u32]) -> Vec<Arrival> {
    let mut requests = Requests::default();
    psns.iter()
        .map(|&psn| requests.arrive(Psn::new(psn), Opcode::RC_SEND_ONLY, None, 1))
        .collect()
}

const NEXT: Arrival = Arrival::New { missing: 0 };

#[test]
fn psns_in_order_wrap() {
    let found = arrivals(&[0xff_fffe, 0xff_ffff, 0, 1]);
    assert_eq!(found, [NEXT; 4]);
}

#[test]
fn retransmitted_psns_are_distinguished_from_late_ones() {
    let found = arrivals(&[10, 11, 14, 12, 11, 12, 15, 13, 13]);
    let expected = [
        NEXT,
        NEXT,
        Arrival::New { missing: 2 },
        Arrival::Late { found: 1 },
        Arrival::Retransmitted,
        Arrival::Retransmitted,
        NEXT,
        Arrival::Late { found: 1 },
        Arrival::Retransmitted,
    ];
    assert_eq!(found, expected);
}

/// A PSN that is far from all others starts a new sequence.
#[test]
fn far_jumps_restart_the_sequence() {
    let found = arrivals(&[10, 0x80_0000, 0x80_0001, 11]);
    assert_eq!(found, [NEXT, Arrival::Restart, NEXT, Arrival::Restart]);
}

/// If there are very many gaps, only the last ones are remembered.
#[test]
fn gaps_are_bounded() {
    let psns: Vec<u32> = (0..1000).map(|i| 2 * i).collect();
    let mut requests = Requests::default();
    let mut arrive = |psn| requests.arrive(Psn::new(psn), Opcode::RC_SEND_ONLY, None, 1);
    for psn in psns {
        arrive(psn);
    }
    assert_eq!(arrive(1997), Arrival::Late { found: 1 });
    assert_eq!(arrive(1), Arrival::Retransmitted);
}

/// An RDMA READ takes as many PSNs as its response has packets.
#[test]
fn reads_take_several_psns() {
    let read = |psn, len| (psn, request(Opcode::RC_READ_REQUEST, 2, psn, len));
    let missing = |mtu: Option<usize>, first: u32, len, second: u32| {
        let mut requests = Requests::default();
        if let Some(mtu) = mtu {
            let psn = Psn::new(first).back(1);
            requests.arrive(psn, Opcode::RC_SEND_FIRST, None, mtu);
        }
        for (psn, repr) in [read(first, len), read(second, 1)] {
            let reth = repr.ext.reth;
            let arrival = requests.arrive(Psn::new(psn), repr.bth.opcode, reth, 0);
            if psn == second {
                return arrival;
            }
        }
        unreachable!("the second is the last")
    };
    let gap = |missing| Arrival::New { missing };
    // With the MTU known, exactly.
    assert_eq!(missing(Some(1024), 100, 4096, 104), NEXT);
    assert_eq!(missing(Some(1024), 100, 4097, 105), NEXT);
    assert_eq!(missing(Some(1024), 100, 4097, 106), gap(1));
    assert_eq!(missing(Some(1024), 100, 0, 101), NEXT);
    assert_eq!(missing(Some(1024), 100, 4096, 103), Arrival::Retransmitted);
    // Without the MTU, any MTU that fits is accepted.
    for packets in [1, 2, 4, 8, 16] {
        assert_eq!(missing(None, 100, 4096, 100 + packets), NEXT);
    }
    assert_eq!(missing(None, 100, 4096, 118), gap(2));
    // A READ of any length does not count as a jump.
    assert_eq!(missing(Some(256), 100, 1 << 26, 100 + (1 << 18)), NEXT);
}

#[test]
fn responses_show_gaps_within_a_message_only() {
    use roce_wire::Position::{First, Last, Middle, Only};
    let mut responses = Responses::default();
    let found: Vec<_> = [
        (5, First),
        (6, Middle),
        (8, Middle),
        (9, Last),
        (20, Only),
        (8, First),
        (7, Middle),
        (21, First),
    ]
    .into_iter()
    .map(|(psn, position)| responses.arrive(Psn::new(psn), position, 1024))
    .collect();
    let expected = [
        NEXT,
        NEXT,
        Arrival::New { missing: 1 },
        NEXT,
        NEXT,
        Arrival::Retransmitted,
        Arrival::Late { found: 1 },
        NEXT,
    ];
    assert_eq!(found, expected);
}

#[test]
fn lost_and_resent_packets_are_counted_once() {
    // 2 and 3 are lost on the path here, and everything from 2 on is retransmitted.
    let psns = [0, 1, 4, 5, 2, 3, 4, 5, 6];
    let table = table_of(10, &psns.map(send));
    let flow = &table.flows()[0];
    let counters = &flow.counters;
    assert_eq!(counters.packets, 9);
    assert_eq!(counters.retransmitted, 2);
    assert_eq!(counters.retransmitted_bytes, 200);
    assert_eq!((counters.gaps, counters.missing), (1, 0));
    assert_eq!(count(flow, Message::Send), 7);
    assert_eq!(counters.payload_bytes, 700);
    assert_eq!(flow.duration().unwrap().as_millis(), 8);
    assert_eq!(flow.bits_per_sec(), Some(700_000.0));
}

#[test]
fn messages_are_counted_by_their_last_packet() {
    let table = table_of(
        10,
        &[
            there(request(Opcode::RC_WRITE_FIRST, 2, 0, 600), 256),
            there(packet(Opcode::RC_WRITE_MIDDLE, 2, 1), 256),
            there(packet(Opcode::RC_WRITE_LAST_WITH_IMMEDIATE, 2, 2), 88),
            there(packet(Opcode::RC_SEND_FIRST, 2, 3), 256),
            there(packet(Opcode::RC_SEND_LAST_WITH_INVALIDATE, 2, 4), 1),
            there(packet(Opcode::RC_FETCH_ADD, 2, 5), 0),
            there(packet(Opcode::RC_SEND_FIRST, 2, 6), 256),
        ],
    );
    let flow = &table.flows()[0];
    let found = Message::ALL.map(|kind| count(flow, kind));
    let sum: u64 = found.iter().sum();
    assert_eq!(sum, 3);
    assert_eq!(count(flow, Message::WriteImmediate), 1);
    assert_eq!(count(flow, Message::SendInvalidate), 1);
    assert_eq!(count(flow, Message::FetchAdd), 1);
}

#[test]
fn naks_and_cnps_are_counted_by_kind() {
    let nak = |syndrome| back(response(Opcode::RC_ACKNOWLEDGE, 1, 0, syndrome), 0);
    let mut marked = Sender::v4(true);
    if let roce_wire::NetworkHeader::V4 { tos, .. } = &mut marked.network {
        *tos = 3;
    }
    let table = table_of(
        10,
        &[
            nak(Syndrome::Nak(NakCode::PsnSequenceError)),
            nak(Syndrome::Nak(NakCode::PsnSequenceError)),
            nak(Syndrome::Nak(NakCode::Reserved(31))),
            nak(Syndrome::RnrNak(RnrTimer::SHORTEST)),
            back(packet(Opcode::CNP, 1, 0), 0),
            marked.frame(packet(Opcode::CNP, 1, 0), 0),
        ],
    );
    let counters = &table.flows()[0].counters;
    assert_eq!(counters.naks[NakKind::PsnSequenceError as usize], 2);
    assert_eq!(counters.naks[NakKind::Reserved as usize], 1);
    assert_eq!(counters.all_naks(), 3);
    assert_eq!(
        (counters.rnr_naks, counters.cnps, counters.ecn_ce),
        (1, 2, 1)
    );
}

/// The directions of each of two connections between the same hosts are found.
#[test]
fn directions_are_paired() {
    let other_send = |psn| there(packet(Opcode::RC_SEND_ONLY, 4, psn), 0);
    let table = table_of(
        10,
        &[
            send(100),
            other_send(900),
            ack(3, 900),
            ack(1, 100),
            send(101),
        ],
    );
    let ends: Vec<_> = table
        .flows()
        .iter()
        .map(|flow| {
            (
                flow.key.dest_qpn.get(),
                flow.peer,
                flow.peer_qpn.map(|q| q.get()),
            )
        })
        .collect();
    let expected = [
        (2, Some(3), Some(1)),
        (4, Some(2), Some(3)),
        (3, Some(1), Some(4)),
        (1, Some(0), Some(2)),
    ];
    assert_eq!(ends, expected);
}

/// A response whose PSN two flows sent pairs with neither; a later response that fits only one
/// decides.
#[test]
fn ambiguous_directions_are_not_paired() {
    let other_send = |psn| there(packet(Opcode::RC_SEND_ONLY, 4, psn), 0);
    let mut frames = vec![send(5), other_send(5), ack(1, 5)];
    let peers = |frames: &[Vec<u8>]| {
        let table = table_of(10, frames);
        table
            .flows()
            .iter()
            .map(|flow| flow.peer)
            .collect::<Vec<_>>()
    };
    assert_eq!(peers(&frames), [None; 3]);
    frames.extend([send(6), ack(1, 6)]);
    assert_eq!(peers(&frames), [Some(2), None, Some(0)]);
}

/// The response to an RDMA READ has PSNs after the request's own, and shows the MTU.
#[test]
fn read_responses_are_paired_and_show_the_mtu() {
    let read = |psn| there(request(Opcode::RC_READ_REQUEST, 2, psn, 3000), 0);
    let credits = Syndrome::Ack(Credits::INVALID);
    let frames = [
        read(10),
        back(packet(Opcode::RC_READ_RESPONSE_MIDDLE, 1, 11), 1024),
        back(response(Opcode::RC_READ_RESPONSE_LAST, 1, 12, credits), 952),
        // With an MTU of 1024, 13 would be next.
        read(14),
    ];
    let table = table_of(10, &frames);
    assert_eq!(table.flows()[0].peer, Some(1));
    assert_eq!(table.flows()[0].counters.missing, 1);
    assert_eq!(count(&table.flows()[1], Message::ReadResponse), 1);
}

#[test]
fn datagrams_have_no_sequence() {
    let datagram = |psn, src_qpn| {
        let mut repr = packet(Opcode::UD_SEND_ONLY, 2, psn);
        repr.ext = ExtHeaders {
            deth: Some(roce_wire::Deth {
                qkey: roce_wire::QKey(1),
                src_qpn: roce_wire::Qpn::from_bits(src_qpn),
            }),
            ..ExtHeaders::NONE
        };
        there(repr, 10)
    };
    let table = table_of(10, &[datagram(5, 1), datagram(900, 1), datagram(5, 7)]);
    let packets: Vec<_> = table.flows().iter().map(|f| f.counters.packets).collect();
    assert_eq!(packets, [2, 1]);
    assert_eq!(table.flows()[0].counters.gaps, 0);
}

#[test]
fn flows_are_limited() {
    let frames: Vec<_> = (0..20)
        .map(|qpn| there(packet(Opcode::RC_SEND_ONLY, qpn % 10, 0), 0))
        .collect();
    let table = table_of(4, &frames);
    assert_eq!(table.flows().len(), 4);
    assert_eq!(table.untracked, 12);
    assert!(table.flows().iter().all(|flow| flow.counters.packets == 2));
}
