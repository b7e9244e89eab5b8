//! The operations of UD, without errors.

use super::{GRH, destination, deth, ready, setup};
use crate::sim::pair::assert_outcomes;
use crate::sim::{A, B, Hand, Ip, Pair, QKEY, Setup, pattern, to_state};
use roce_stack::{
    AddressError, DatagramSource, Destination, NetworkHeader, PostError, QpKind, QpState,
    SendFlags, SendOp, SendRequest, Sge, Target, TxMeta, WcOpcode, WcStatus,
};
use roce_wire::{Grh, Opcode, QKey};
use std::net::Ipv4Addr;

/// Every length up to the port's path MTU (4096 fit in its packets), in both directions, with the
/// header in front and the sender's QPN in the completion.
// shows: 9.8.3-single-packet, 9.8.3-completes-when-sent, 9.8.3-grh-space, 9.8.3-source-told
// shows: A16-stack, A16-ud-grh, A17.4.5.1-network
#[test]
fn datagrams_arrive_with_their_headers() {
    for ip in Ip::ALL {
        let mut pair = Pair::new(Setup { ip, ..setup() });
        for (wr_id, len) in (1..).zip([0, 1, 5, 1024, 4095, 4096]) {
            for (from, to) in [(A, B), (B, A)] {
                let out = pair.mem(from, 4096);
                let inbox = pair.mem(to, GRH + 4096);
                inbox.write(0, &[0xee; GRH + 4096]);
                out.write(0, &pattern(wr_id, len));
                pair.post_recv(to, wr_id, &[inbox.sge(0, GRH + len)]);
                let (dst, qpn) = (pair.nodes[to].address, pair.nodes[to].qpn);
                let there = destination(&pair.nodes[from], dst, qpn, QKEY);
                let op = SendOp::SendImm(77);
                let request = SendRequest::new(wr_id, op, out.sge(0, len));
                pair.post_request(from, &request.to(there));
                pair.run();
                pair.assert_sent(from, &[wr_id]);
                let done = pair.assert_received(to, &[wr_id])[0];
                assert_eq!(done.byte_len as usize, GRH + len);
                assert_eq!((done.opcode, done.imm), (WcOpcode::Recv, Some(77)));
                let source = DatagramSource {
                    qpn: pair.nodes[from].qpn,
                    pkey_index: 0,
                    grh: true,
                    network: match ip {
                        Ip::V4 | Ip::V4Hidden => NetworkHeader::Ipv4,
                        Ip::V6 => NetworkHeader::Ipv6,
                        Ip::Grh => NetworkHeader::Grh,
                    },
                };
                assert_eq!(done.source, Some(source));
                assert_eq!(inbox.read(GRH, len), pattern(wr_id, len));
                assert_eq!(inbox.read(GRH + len, 4096 - len), vec![0xee; 4096 - len]);
                assert_header(ip, &inbox.read(0, GRH), from, len);
            }
        }
        for node in &pair.nodes {
            assert_eq!(node.nic.counters().total_drops(), 0);
        }
    }
}

/// The header has the sender of the packet, its traffic class, and its length.
fn assert_header(ip: Ip, area: &[u8], from: usize, len: usize) {
    let host = from as u8 + 1;
    // BTH, DETH, immediate data, padded payload, ICRC.
    let transport = 12 + 8 + 4 + len.next_multiple_of(4) + 4;
    if ip == Ip::V6 {
        let grh = Grh::parse(area).expect("an IPv6 header");
        assert_eq!((grh.sgid[15], grh.dgid[15]), (host, 3 - host));
        assert_eq!(usize::from(grh.payload_len), 8 + transport);
        assert_eq!(grh.traffic_class, 0x48);
        return;
    }
    if ip == Ip::Grh {
        let grh = Grh::parse(area).expect("a GRH");
        assert_eq!(grh.sgid[10..], [0xff, 0xff, 10, 0, 0, host]);
        assert_eq!(grh.dgid[10..], [0xff, 0xff, 10, 0, 0, 3 - host]);
        assert_eq!(usize::from(grh.payload_len), transport);
        let marks = (grh.traffic_class, grh.next_header);
        assert_eq!(marks, (0x48, Grh::NEXT_HEADER_BTH));
        return;
    }
    assert_eq!(area[..20], [0; 20]);
    assert_eq!(area[20..22], [0x45, 0x48]);
    let total = u16::from_be_bytes([area[22], area[23]]);
    assert_eq!(usize::from(total), 28 + transport);
    assert_eq!(area[32..36], [10, 0, 0, host]);
    assert_eq!(area[36..40], [10, 0, 0, 3 - host]);
}

/// The packets: UD's opcodes, the Q_Key, the sender's QPN, no request for an answer.
// shows: 9.8.3-single-packet, 9.8.3-deth, 9.8.3-ackreq-clear, 9.8.3-qkey-controlled
// shows: 9.8.3-address-handle
// trap: ackreq-unreliable
#[test]
fn packets_carry_the_key_and_the_number() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(64);
    let qpn = hand.node.qpn;
    let to = |hand: &Hand, qkey| {
        let dst = hand.setup.ip.address(9);
        destination(&hand.node, dst, roce_wire::Qpn::from_bits(5), QKey(qkey))
    };
    for (qkey, sent) in [
        (0x7fff_0001, 0x7fff_0001),
        // The highest bit selects the QP's own Q_Key.
        (0x8000_0000, QKEY.0),
        (0xffff_ffff, QKEY.0),
    ] {
        let request = SendRequest::send(mem.sge(0, 7)).to(to(&hand, qkey));
        hand.post_request(&request.with_flags(SendFlags::SOLICITED));
        let out = hand.out_one();
        assert_eq!(out.opcode(), Opcode::UD_SEND_ONLY);
        assert_eq!((out.bth.dest_qpn.get(), out.payload.len()), (5, 7));
        assert!(out.bth.solicited && !out.bth.ack_req && out.bth.mig_req);
        let deth = out.ext.deth.expect("DETH");
        assert_eq!((deth.qkey, deth.src_qpn), (QKey(sent), qpn));
    }
    let request = SendRequest::new(1, SendOp::SendImm(2), ()).to(to(&hand, 1));
    hand.post_request(&request);
    let out = hand.out_one();
    assert_eq!(out.opcode(), Opcode::UD_SEND_ONLY_WITH_IMMEDIATE);
    assert_eq!(out.psn(), hand.setup.psn[0] + 3);
    assert_eq!(hand.node.nic.next_timeout(), None);
}

/// A datagram completes as soon as it has left, whether or not a QP receives it, and not before: a
/// full port delays it.
#[test]
fn a_datagram_completes_when_it_has_left() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(64);
    let dst = hand.setup.ip.address(2);
    let to = destination(&hand.node, dst, hand.node.qpn, QKEY);
    let send = SendRequest::send(mem.sge(0, 8)).to(to);
    hand.node.port.max_queued = 1;
    hand.post_request(&send.id(1));
    hand.post_request(&send.id(2));
    assert!(hand.node.sent().is_empty());
    assert_eq!(hand.out().len(), 1);
    assert_outcomes(&hand.node.sent(), &[(1, WcStatus::Success)]);
    assert_eq!(hand.out().len(), 1);
    assert_outcomes(&hand.node.sent(), &[(2, WcStatus::Success)]);
}

/// Several elements: the header may lie in another one than the message, or in parts.
#[test]
fn the_header_scatters_like_the_message() {
    let (mut hand, ext) = ready();
    let mem = hand.mem(200);
    let sges = [mem.sge(0, 30), mem.sge(100, 15), mem.sge(190, 5)];
    hand.post_recv(1, &sges);
    hand.request(Opcode::UD_SEND_ONLY, ext, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_outcomes(&hand.node.received(), &[(1, WcStatus::Success)]);
    assert_eq!(mem.read(20, 1), [0x45]);
    assert_eq!(mem.read(106, 4), [10, 0, 0, 1], "the destination's end");
    assert_eq!(mem.read(110, 5), [1, 2, 3, 4, 5]);
    assert_eq!(mem.read(190, 4), [6, 7, 8, 0]);
}

// shows: 9.8.3-too-long-refused, 9.8.3-ah-pd
#[test]
fn what_cannot_be_sent_is_refused_when_posted() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(8192);
    let dst = hand.setup.ip.address(2);
    let to = destination(&hand.node, dst, hand.node.qpn, QKEY);
    let post = |hand: &mut Hand, op, target: Target, len| {
        let request = SendRequest::new(1, op, mem.sge(0, len)).to(target);
        hand.node.nic.post_send(hand.now, hand.node.qpn, &request)
    };
    let send = |hand: &mut Hand, to: Destination, len| post(hand, SendOp::Send, to.into(), len);
    let too_long = PostError::DatagramTooLong {
        bytes: 4097,
        mtu: 4096,
    };
    assert_eq!(send(&mut hand, to, 4097), Err(too_long));
    let wrong = |kind, opcode| PostError::WrongService { kind, opcode };
    let sent = Err(wrong(QpKind::Ud, WcOpcode::Send));
    assert_eq!(post(&mut hand, SendOp::Send, Target::Peer, 8), sent);
    let write = SendOp::Write(mem.remote(0));
    let written = Err(wrong(QpKind::Ud, WcOpcode::RdmaWrite));
    assert_eq!(post(&mut hand, write, Target::Peer, 8), written);
    assert_eq!(post(&mut hand, write, to.into(), 8), written);

    let other = hand.node.nic.alloc_pd();
    let ah = hand.node.nic.create_ah(other, *to.ah.path());
    let foreign = ah.expect("a handle").to(hand.node.qpn, QKEY);
    let refused = Err(PostError::ForeignAddress);
    assert_eq!(send(&mut hand, foreign, 8), refused);

    for kind in [QpKind::Rc, QpKind::Uc] {
        let mut hand = Hand::new(Setup { kind, ..setup() });
        let refused = Err(wrong(kind, WcOpcode::Send));
        assert_eq!(send(&mut hand, to, 8), refused);
    }
}

// shows: 9.8.3-address-handle
#[test]
fn address_handles_are_checked() {
    let (hand, _) = ready();
    let mut path = TxMeta {
        src: Ipv4Addr::new(10, 0, 0, 1).into(),
        dst: Ipv4Addr::UNSPECIFIED.into(),
        traffic_class: 0,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    };
    let (nic, pd) = (&hand.node.nic, hand.node.pd);
    let refused = Err(AddressError::Unspecified { dst: path.dst });
    assert_eq!(nic.create_ah(pd, path), refused);
    path.dst = "fe80::1".parse().expect("valid");
    let TxMeta { src, dst, .. } = path;
    let refused = Err(AddressError::MixedFamilies { src, dst });
    assert_eq!(nic.create_ah(pd, path), refused);
}

/// An error of the QP's own stops sending, not receiving, as with UC.
// shows: 9.8.3-sqe, 10.3.1-sqe
#[test]
fn a_send_error_stops_sending_only() {
    let (mut hand, ext) = ready();
    let mem = hand.mem(64);
    let dst = hand.setup.ip.address(2);
    let to = destination(&hand.node, dst, hand.node.qpn, QKEY);
    let bad = Sge {
        addr: 1,
        length: 8,
        lkey: 1,
    };
    let good = SendRequest::send(mem.sge(0, 8)).to(to);
    hand.post_request(&SendRequest::send(bad).id(1).to(to));
    hand.post_request(&good.id(2));
    assert!(hand.out().is_empty());
    assert_outcomes(
        &hand.node.sent(),
        &[
            (1, WcStatus::LocalProtectionError),
            (2, WcStatus::WorkRequestFlushed),
        ],
    );
    assert_eq!(hand.state(), QpState::Sqe);
    hand.post_recv(3, &[mem.sge(0, 64)]);
    hand.request(Opcode::UD_SEND_ONLY, ext, &[1; 8]);
    assert_outcomes(&hand.node.received(), &[(3, WcStatus::Success)]);
    let (nic, qpn) = (&mut hand.node.nic, hand.node.qpn);
    nic.modify_qp(hand.now, qpn, &to_state(QpState::Rts))
        .expect("legal");
    hand.post_request(&good.id(4));
    assert_eq!(hand.out().len(), 1);
}

/// Any QP may send: the QP has no peer.
// shows: 9.8.3-any-peer
#[test]
fn datagrams_come_from_anywhere() {
    let mut hand = Hand::new(setup());
    let mem = hand.mem(256);
    for host in 2..6 {
        hand.post_recv(host.into(), &[mem.sge(0, 256)]);
        let mut meta = hand.meta();
        meta.src = hand.setup.ip.address(host);
        let bth = hand.bth(Opcode::UD_SEND_ONLY, 0);
        hand.deliver_from(meta, bth, deth(QKEY), &[host]);
        assert_eq!(hand.node.received().len(), 1);
        assert_eq!(mem.read(35, 6), [host, 10, 0, 0, 1, host]);
    }
}
