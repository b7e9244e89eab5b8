//! RoCE v1 and RoCEv2 side by side (RoCEv2 Annex A17.8): the path of a connected QP and the address
//! handle of a datagram choose the version.

use crate::sim::{Hand, Ip, QKEY, Setup};
use crate::ud::deth;
use roce_stack::{
    Flow, IpCovered, QpKind, ReserveError, RoceVersion, SendOp, SendRequest, Sequenced, Transmit,
    TxMeta, TxSlot,
};
use roce_wire::{Opcode, Qpn};

/// A port that carries both versions, and records the version of each packet.
#[derive(Default)]
struct Both {
    bytes: Vec<u8>,
    reserved: Option<RoceVersion>,
    sent: Vec<RoceVersion>,
}

impl Transmit for Both {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        _flow: Flow,
        _sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.bytes.resize(len, 0);
        self.reserved = Some(to.version);
        Ok(TxSlot {
            bytes: &mut self.bytes,
            src_port: 0,
            ip: match to.version {
                RoceVersion::V1 => IpCovered::Grh,
                RoceVersion::V2 => IpCovered::V6,
            },
            kept: false,
        })
    }

    fn commit(&mut self) {
        self.sent.extend(self.reserved.take());
    }
}

fn sent_by(hand: &mut Hand) -> Vec<RoceVersion> {
    let mut port = Both::default();
    while hand.node.nic.wants_to_send() {
        hand.node.nic.transmit(hand.now, &mut port);
    }
    port.sent
}

// shows: CA17-40-connected-version
#[test]
fn a_connected_qp_sends_in_the_version_of_its_path() {
    for kind in [QpKind::Rc, QpKind::Uc] {
        for ip in Ip::ALL {
            let mut hand = Hand::new(Setup {
                ip,
                kind,
                ..Setup::default()
            });
            let mem = hand.mem(8);
            hand.post(1, SendOp::Send, &[mem.sge(0, 8)]);
            assert_eq!(sent_by(&mut hand), [ip.version()], "{kind:?}, {ip:?}");
        }
    }
}

// shows: CA17-42-datagram-version
#[test]
fn each_datagram_is_sent_in_the_version_of_its_address_handle() {
    let mut hand = Hand::new(Setup {
        kind: QpKind::Ud,
        ..Setup::default()
    });
    let mem = hand.mem(8);
    let versions = [RoceVersion::V1, RoceVersion::V2, RoceVersion::V1];
    for version in versions {
        let path = TxMeta {
            version,
            ..hand.setup.path()
        };
        let handle = hand.node.nic.create_ah(hand.node.pd, path);
        let to = handle.expect("a handle").to(Qpn::from_bits(5), QKEY);
        hand.post_request(&SendRequest::send(mem.sge(0, 8)).to(to));
    }
    assert_eq!(sent_by(&mut hand), versions);
}

// shows: CA17-43-datagrams-of-both
#[test]
fn a_datagram_qp_accepts_both_versions() {
    let of = |ip| Setup {
        ip,
        kind: QpKind::Ud,
        ..Setup::default()
    };
    let mut hand = Hand::new(of(Ip::V4));
    let mem = hand.mem(64);
    for (wr_id, ip) in (1..).zip([Ip::V4, Ip::Grh, Ip::V6]) {
        hand.post_recv(wr_id, &[mem.sge(0, 64)]);
        let meta = Hand::new(of(ip)).meta();
        let bth = hand.bth(Opcode::UD_SEND_ONLY, 0);
        hand.deliver_from(meta, bth, deth(QKEY), &[7; 8]);
        assert_eq!(hand.node.received().len(), 1, "{ip:?}");
    }
    assert_eq!(hand.node.nic.counters().total_drops(), 0);
}
