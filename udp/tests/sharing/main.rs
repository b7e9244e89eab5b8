//! Several ports share UDP port 4791 of one address, in one process and in several processes, some
//! of which are killed.

mod bundles;
mod management;
mod processes;
mod squatters;
mod steering;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use roce_port::{Port, PortError};
use roce_stack::{QpnRange, RxMeta};
use roce_udp::{UdpPort, UdpPortConfig};

/// The time that a test waits for an event before it fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An address of the loopback network that no other test uses.
fn fresh_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last))
}

/// The only IPv6 address of the loopback. A test that receives at it keeps the guard, since ports of
/// others that come and go change where its packets arrive.
fn ipv6_address() -> (IpAddr, MutexGuard<'static, ()>) {
    static IN_USE: Mutex<()> = Mutex::new(());
    // A test that failed leaves it poisoned, and its ports are closed.
    let guard = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    (IpAddr::V6(Ipv6Addr::LOCALHOST), guard)
}

fn part(number: u8) -> QpnRange {
    QpnRange::new(number).expect("a part of this number")
}

fn config(address: IpAddr, number: u8) -> UdpPortConfig {
    UdpPortConfig {
        part: Some(part(number)),
        ..support::loopback_config(address)
    }
}

fn try_open(address: IpAddr, number: u8) -> Result<UdpPort, PortError> {
    let mut port = UdpPort::new(config(address, number));
    port.activate(address)?;
    Ok(port)
}

fn open(address: IpAddr, number: u8) -> UdpPort {
    try_open(address, number).unwrap_or_else(|error| panic!("part {number}: {error}"))
}

/// A packet to a QP of the part, with a number.
fn packet(to: u8, number: u8) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[5] = to << QpnRange::SHIFT;
    bytes[7] = 99;
    bytes[8] = number;
    bytes
}

/// A socket that sends arbitrary packets to an address.
fn sender(address: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    socket.connect((address, 4791)).expect("an address");
    socket
}

/// The parts and numbers of the packets that wait at the port. Waits until there are `count` of them:
/// on a busy machine, the kernel delivers the packets of the loopback a little later.
fn waiting(port: &mut UdpPort, count: usize) -> Vec<(u8, u8)> {
    let mut got = Vec::new();
    let start = Instant::now();
    loop {
        let mut sink = |_: &RxMeta, bytes: &[u8]| got.push((bytes[5] >> QpnRange::SHIFT, bytes[8]));
        while port.receive(1000, &mut sink).expect("a port that works") > 0 {}
        if got.len() >= count || start.elapsed() > TIMEOUT {
            return got;
        }
        std::thread::yield_now();
    }
}

/// Checks that each of `ports` receives the packets for its part and no others, and that packets
/// for the parts in `unclaimed` are not delivered.
fn assert_steering(address: IpAddr, ports: &mut [(u8, UdpPort)], unclaimed: &[u8]) {
    let from = sender(address);
    for number in 0..3 {
        for &to in ports.iter().map(|(part, _)| part).chain(unclaimed) {
            from.send(&packet(to, number)).expect("sent");
        }
    }
    for (part, port) in ports {
        let expected: Vec<_> = (0..3).map(|number| (*part, number)).collect();
        assert_eq!(waiting(port, expected.len()), expected, "part {part}");
    }
}

/// The inodes of the sockets that are bound to the address, and the numbers of bytes that wait in
/// them.
fn bound(address: IpAddr) -> Vec<(String, String)> {
    // The kernel returns the table in pieces, and other tests change it meanwhile.
    let mut last = bound_now(address);
    loop {
        let again = bound_now(address);
        if again == last {
            return again;
        }
        last = again;
    }
}

fn bound_now(address: IpAddr) -> Vec<(String, String)> {
    let IpAddr::V4(v4) = address else {
        panic!("an IPv4 address");
    };
    let local = format!("{:08X}:12B7", u32::from_ne_bytes(v4.octets()));
    let table = fs::read_to_string("/proc/thread-self/net/udp").expect("a table");
    let fields = |line: &str| -> Vec<String> {
        line.split_ascii_whitespace()
            .map(ToOwned::to_owned)
            .collect()
    };
    let lines = table.lines().map(fields);
    lines
        .filter(|fields| fields.get(1) == Some(&local))
        .map(|fields| {
            let queued = fields[4].split(':').nth(1).expect("two numbers");
            (fields[9].clone(), queued.to_owned())
        })
        .collect()
}

/// The lines of Unix sockets whose names contain the address.
fn names(address: IpAddr) -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/unix").expect("a table");
    let of_it = format!("/{address}%");
    let lines = table.lines().filter(|line| line.contains(&of_it));
    lines.map(ToOwned::to_owned).collect()
}

/// Waits until no socket and no name of the address is left. Another test may be starting a
/// process, which briefly has a copy of all descriptors.
fn assert_nothing_left(address: IpAddr) {
    until("all is gone", || {
        bound(address).is_empty() && names(address).is_empty()
    });
}

/// Waits until `condition` returns true. Fails after [`TIMEOUT`].
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        std::thread::yield_now();
    }
}
