//! Ports over the loopback interface. These tests need no privilege. Each test has its own
//! addresses in 127/8. Tests over `::1` share one address, and run one at a time.

mod addresses;
mod arrivals;
mod classes;
mod flows;
mod groups;
mod lengths;
mod properties;
mod refusals;
#[path = "../support/mod.rs"]
mod support;

use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roce_port::Port;
use roce_stack::{IpCovered, RxMeta, TxMeta};
use roce_udp::UdpPort;
use support::{open, packet, receive, send, skip};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A lock for `::1`, and a port at that address, which sends to itself.
fn open_v6(test: &str) -> Option<(MutexGuard<'static, ()>, UdpPort)> {
    let lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if UdpSocket::bind((V6, 0)).is_err() {
        skip(test, "an address ::1 of the loopback interface");
        return None;
    }
    Some((lock, open(V6)))
}

/// The two addresses of test `test`.
fn pair(test: u8) -> (IpAddr, IpAddr) {
    let address = |last| IpAddr::from([127, 101, test, last]);
    (address(1), address(2))
}

/// Sends packets of these lengths from one port to the other or, without another port, to itself,
/// and checks that they arrive. Keeps no more packets in flight than a small receive buffer holds.
fn exchange(from: &mut UdpPort, mut into: Option<&mut UdpPort>, to: &TxMeta, lens: &[usize]) {
    let mut rest = lens;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |&&len: &&usize| {
            bytes += len + 1000;
            bytes <= 130_000
        };
        let count = rest.iter().take_while(fits).count();
        let (group, later) = rest.split_at(count);
        exchange_group(from, into.as_deref_mut(), to, group);
        rest = later;
    }
}

fn exchange_group(from: &mut UdpPort, into: Option<&mut UdpPort>, to: &TxMeta, lens: &[usize]) {
    let packets = lens.iter().enumerate();
    let sent: Vec<Vec<u8>> = packets.map(|(number, &len)| packet(number, len)).collect();
    for bytes in &sent {
        send(from, to, bytes);
    }
    assert!(
        from.flush().expect("loopback is there"),
        "loopback takes everything"
    );
    assert_eq!(from.queued(), 0);
    let received = receive(into.unwrap_or(from), sent.len());
    let ip = if to.dst.is_ipv4() {
        IpCovered::V4Hidden
    } else {
        IpCovered::V6
    };
    let meta = RxMeta {
        src: to.src,
        dst: to.dst,
        src_port: received[0].meta.src_port,
        traffic_class: to.traffic_class,
        ip,
    };
    for (index, (got, bytes)) in received.iter().zip(&sent).enumerate() {
        assert_eq!(got.meta, meta, "packet {index} of {lens:?}");
        assert_eq!(got.bytes.len(), bytes.len(), "packet {index} of {lens:?}");
        assert!(
            got.bytes == *bytes,
            "packet {index} of {lens:?} has other bytes"
        );
    }
    assert_eq!(received.len(), sent.len(), "no packet more than was sent");
}
