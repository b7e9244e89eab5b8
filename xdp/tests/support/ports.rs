//! Ports at the ends of a veth pair.

use roce_wire::Qpn;
use std::collections::VecDeque;
use std::net::IpAddr;

use roce_port::Port;
use roce_stack::{Flow, IpCovered, ReserveError, RoceVersion, RxMeta, TxMeta};
use roce_udp::{UdpPort, UdpPortConfig};
use roce_xdp::program::AttachMode;
use roce_xdp::umem::Owner;
use roce_xdp::{XdpPort, XdpPortConfig};

use super::{bytes, wait_for};
use testkit::veth::{End, Pair};

/// A received packet, copied.
pub(crate) type Received = (RxMeta, Vec<u8>);

pub(crate) fn open(end: &End, mtu: usize, queues: u32, attach: AttachMode) -> XdpPort {
    open_with(end, config(end, mtu, queues, attach))
}

pub(crate) fn config(end: &End, mtu: usize, queues: u32, attach: AttachMode) -> XdpPortConfig {
    let mut config = XdpPortConfig::new(end.interface, end.index(), mtu);
    config.sockets.queues = (0..queues).collect();
    config.attach = attach;
    config
}

pub(crate) fn open_with(end: &End, config: XdpPortConfig) -> XdpPort {
    let mut port = end.enter(|| XdpPort::open(config)).expect("AF_XDP");
    for address in [end.ip4.into(), end.ip6.into()] {
        port.activate(address).expect("an address of its own");
    }
    port
}

pub(crate) fn open_udp(end: &End, mtu: usize) -> UdpPort {
    let addresses: Vec<IpAddr> = vec![end.ip4.into(), end.ip6.into()];
    let config = UdpPortConfig::new(end.interface, end.index(), mtu, addresses.clone());
    end.enter(|| {
        let mut port = UdpPort::new(config);
        for address in addresses {
            port.activate(address).expect("an address of its own");
        }
        port
    })
}

pub(crate) fn from_to(from: &End, to: &End, ipv6: bool) -> TxMeta {
    TxMeta {
        src: from.address(ipv6),
        dst: to.address(ipv6),
        traffic_class: 0x6a,
        hop_limit: 0,
        version: RoceVersion::V2,
    }
}

/// Queues a packet and returns what the other side should receive.
pub(crate) fn send(port: &mut dyn Port, to: &TxMeta, packet: &[u8]) -> Received {
    wait_for("room", || {
        match port.reserve_run(to, Flow::new(Qpn::QP0, Qpn::QP0), None, packet.len(), 1) {
            Ok(slot) => {
                slot.bytes.copy_from_slice(packet);
                let meta = RxMeta {
                    src: to.src,
                    dst: to.dst,
                    src_port: slot.src_port,
                    traffic_class: to.traffic_class,
                    ip: slot.ip,
                };
                port.commit();
                Some((meta, packet.to_vec()))
            }
            Err(ReserveError::Full) => {
                port.flush().expect("a port that works");
                None
            }
            Err(error) => panic!("{to:?} can't be sent to: {error:?}"),
        }
    })
}

/// Receives the packets that have arrived so far at `far`. Drives both ports, because one may wait
/// for a neighbour.
pub(crate) fn drive(near: &mut dyn Port, far: &mut dyn Port, into: &mut VecDeque<Received>) {
    near.flush().expect("a port that works");
    near.receive(64, &mut |_: &RxMeta, _: &[u8]| {})
        .expect("a port that works");
    let mut sink = |meta: &RxMeta, packet: &[u8]| into.push_back((*meta, packet.to_vec()));
    far.receive(64, &mut sink).expect("a port that works");
}

/// Checks that packets of these lengths arrive in order, with the predicted metadata.
pub(crate) fn cross(pair: &Pair, near: &mut dyn Port, far: &mut dyn Port, lens: &[usize]) {
    cross_with_version(RoceVersion::V2, pair, near, far, lens);
}

/// As [`cross`], with packets of `version`.
pub(crate) fn cross_with_version(
    version: RoceVersion,
    pair: &Pair,
    near: &mut dyn Port,
    far: &mut dyn Port,
    lens: &[usize],
) {
    for round in 0..20 {
        let to = TxMeta {
            version,
            ..from_to(&pair.near, &pair.far, round % 2 == 1)
        };
        let packet = |(number, &len)| bytes(round * 100 + number, len);
        let sent: Vec<Received> = lens
            .iter()
            .enumerate()
            .map(packet)
            .map(|packet| send(near, &to, &packet))
            .collect();
        let mut received = VecDeque::new();
        wait_for("all packets", || {
            drive(near, far, &mut received);
            (received.len() >= sent.len()).then_some(())
        });
        for (got, want) in received.into_iter().zip(sent) {
            assert!(
                got.1 == want.1,
                "{} bytes, not {}",
                got.1.len(),
                want.1.len()
            );
            let hidden = got.0.ip == IpCovered::V4Hidden;
            let expected = if hidden {
                RxMeta {
                    ip: IpCovered::V4Hidden,
                    ..want.0
                }
            } else {
                want.0
            };
            assert_eq!(got.0, expected);
        }
    }
}

pub(crate) fn assert_no_chunk_is_lost(port: &mut XdpPort) {
    let memory = port.config().sockets.memory;
    wait_for("all is sent", || {
        port.flush().expect("a port that works");
        port.follow_network().expect("a network");
        (port.queued() == 0).then_some(())
    });
    for queue in port.queues() {
        let [fill, free] = [Owner::Fill, Owner::Free].map(|owner| queue.chunks().of(owner));
        assert_eq!(fill + free, memory.chunks());
        // A few free chunks may not be in the fill ring yet.
        assert!(
            fill + 32 >= memory.rx_chunks,
            "{fill} of {}",
            memory.rx_chunks
        );
    }
}
