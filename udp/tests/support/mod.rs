//! Helpers for the integration tests.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod netns;

use roce_wire::Qpn;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use roce_port::Port;
use roce_stack::{Flow, IpCovered, RxMeta, Transmit, TxMeta};
use roce_udp::{UdpPort, UdpPortConfig};

/// The time that a test waits for packets before it fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A received packet, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) meta: RxMeta,
    pub(crate) bytes: Vec<u8>,
}

/// A configuration with the receive buffer that an unprivileged user gets with the default
/// `net.core.rmem_max`.
pub(crate) fn loopback_config(address: IpAddr) -> UdpPortConfig {
    UdpPortConfig {
        receive_buffer_bytes: 212_992,
        ..UdpPortConfig::new("lo", 1, 65536, vec![address])
    }
}

/// A port with `address`, activated.
pub(crate) fn open(address: IpAddr) -> UdpPort {
    open_with(loopback_config(address))
}

/// A port with all addresses of `config` activated.
pub(crate) fn open_with(config: UdpPortConfig) -> UdpPort {
    let addresses = config.addresses.clone();
    let mut port = UdpPort::new(config);
    for address in addresses {
        port.activate(address)
            .expect("an address of this machine, not in use");
    }
    port
}

pub(crate) fn to(src: IpAddr, dst: IpAddr) -> TxMeta {
    TxMeta {
        src,
        dst,
        traffic_class: 2,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    }
}

/// Queues `bytes`. Returns the covered fields that the port predicts.
pub(crate) fn send(port: &mut UdpPort, to: &TxMeta, bytes: &[u8]) -> IpCovered {
    let slot = port
        .reserve_run(to, Flow::new(Qpn::QP0, Qpn::QP0), None, bytes.len(), 1)
        .expect("room for the packet");
    assert!(
        slot.src_port == 4791 || slot.src_port >= 0xc000,
        "{}",
        slot.src_port
    );
    slot.bytes.copy_from_slice(bytes);
    let ip = slot.ip;
    port.commit();
    ip
}

/// Waits until `count` packets have arrived.
pub(crate) fn receive(port: &mut UdpPort, count: usize) -> Vec<Received> {
    let start = Instant::now();
    let mut received = Vec::new();
    while received.len() < count {
        receive_now(port, &mut received);
        assert!(
            start.elapsed() < TIMEOUT,
            "{} of {count} packets after {TIMEOUT:?}; {:?}",
            received.len(),
            port.counters()
        );
    }
    received
}

/// Appends the packets that have arrived so far to `into`. Returns their number.
pub(crate) fn receive_now(port: &mut UdpPort, into: &mut Vec<Received>) -> usize {
    let mut sink = |meta: &RxMeta, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        into.push(Received { meta: *meta, bytes });
    };
    port.receive(1000, &mut sink).expect("a port that works")
}

/// A packet of `len` bytes whose content depends on `number`.
pub(crate) fn packet(number: usize, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32 ^ (number as u32).wrapping_mul(0x85eb_ca6b);
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

/// Reports on stderr that a test is skipped for want of `need`, or fails if tests must not be skipped.
pub(crate) fn skip(test: &str, need: &str) {
    testkit::skip_test(test, need, "");
}

/// Switches a socket option on.
pub(crate) fn set_option(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int) {
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to an `int` that lives through the call, and its
    // size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
