//! Unreliable datagrams (IBTA 1.7, 9.8.3).

mod datagrams;
mod drops;
mod hostile;
mod multicast;

use crate::sim::node::Node;
use crate::sim::{Hand, QKEY, Setup};
use roce_stack::{Destination, QpKind, TxMeta};
use roce_wire::{Deth, ExtHeaders, QKey, Qpn};
use std::net::IpAddr;

/// Bytes in front of each message.
const GRH: usize = 40;

/// The usual setup, with the service UD.
fn setup() -> Setup {
    Setup {
        kind: QpKind::Ud,
        ..Setup::default()
    }
}

/// The destination for `node` of the QP `qpn` at `dst`.
pub(crate) fn destination(node: &Node, dst: IpAddr, qpn: Qpn, qkey: QKey) -> Destination {
    let path = TxMeta {
        src: node.address,
        dst,
        traffic_class: 0x48,
        hop_limit: 9,
        version: node.port.ip().version(),
    };
    let ah = node.nic.create_ah(node.pd, path).expect("a handle");
    ah.to(qpn, qkey)
}

/// The header of a datagram that the test's peer sends.
pub(crate) fn deth(qkey: QKey) -> ExtHeaders {
    ExtHeaders {
        deth: Some(Deth {
            qkey,
            src_qpn: Qpn::from_bits(0xabc),
        }),
        ..ExtHeaders::NONE
    }
}

/// A QP in RTS, and the header that it accepts.
fn ready() -> (Hand, ExtHeaders) {
    (Hand::new(setup()), deth(QKEY))
}
