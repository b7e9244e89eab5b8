//! Measures a bare [`UdpPort`] without any protocol, which is the upper limit for everything built
//! on it.
//!
//! ```text
//! raw_ceiling                      two threads over loopback
//! raw_ceiling serve LOCAL MTU      the far end, until the other end stops it
//! raw_ceiling LOCAL MTU PEER       measure against that far end
//! ```
//!
//! Prints the half round trip of small packets with both ends spinning, and the one-way throughput
//! of large ones. The far end acknowledges received data, so that the sender keeps no more in
//! flight than the receive buffer holds.

use roce_wire::Qpn;
use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use roce_port::Port;
use roce_stack::{Flow, RxMeta, Transmit, TxMeta};
use roce_udp::{UdpPort, UdpPortConfig};

type Error = Box<dyn std::error::Error>;

const PING: u8 = 0;
const DATA: u8 = 1;
const ACK: u8 = 2;
const STOP: u8 = 3;

/// The length of the header of this program's packets: a kind and a number.
const HEADER: usize = 9;

const WARM_UP: usize = 2_000;
const ROUND_TRIPS: usize = 100_000;
const THROUGHPUT_TIME: Duration = Duration::from_secs(2);

/// Packets that are queued before a flush.
const BURST: u64 = 32;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => loopback(),
        ["serve", local, mtu] => {
            let mut port = open(local.parse()?, mtu.parse()?)?;
            println!("listening");
            std::io::stdout().flush()?;
            serve(&mut port)
        }
        [local, mtu, peer] => {
            let local = local.parse()?;
            measure(&mut open(local, mtu.parse()?)?, local, peer.parse()?)
        }
        _ => Err("usage: raw_ceiling [[serve] LOCAL MTU [PEER]]".into()),
    }
}

fn loopback() -> Result<(), Error> {
    let near = IpAddr::from([127, 91, 0, 1]);
    let far = IpAddr::from([127, 91, 0, 2]);
    let mut port = open(near, 65536)?;
    let mut far_port = open(far, 65536)?;
    std::thread::scope(|scope| {
        let server = scope.spawn(move || serve(&mut far_port).map_err(|error| error.to_string()));
        measure(&mut port, near, far)?;
        match server.join() {
            Ok(result) => result.map_err(Error::from),
            Err(_) => Err("the far end panicked".into()),
        }
    })
}

fn open(local: IpAddr, mtu: usize) -> Result<UdpPort, Error> {
    // The index matters to link-local addresses only; 1 is the loopback interface.
    let mut port = UdpPort::new(UdpPortConfig::new("lo", 1, mtu, vec![local]));
    port.activate(local)?;
    Ok(port)
}

fn to(src: IpAddr, dst: IpAddr) -> TxMeta {
    TxMeta {
        src,
        dst,
        traffic_class: 2,
        hop_limit: 0,
        version: roce_stack::RoceVersion::V2,
    }
}

fn queue(port: &mut UdpPort, to: &TxMeta, kind: u8, number: u64, len: usize) -> bool {
    let Ok(slot) = port.reserve_run(to, Flow::new(Qpn::QP0, Qpn::QP0), None, len, 1) else {
        return false;
    };
    slot.bytes[0] = kind;
    slot.bytes[1..HEADER].copy_from_slice(&number.to_be_bytes());
    port.commit();
    true
}

fn read(packet: &[u8]) -> Option<(u8, u64)> {
    let number = packet.get(1..HEADER)?.try_into().ok()?;
    Some((packet[0], u64::from_be_bytes(number)))
}

/// Answers pings and acknowledges data until a STOP arrives.
fn serve(port: &mut UdpPort) -> Result<(), Error> {
    let (mut stop, mut seen, mut acknowledged) = (false, 0, 0);
    while !stop {
        let mut answer = None;
        port.receive(64, &mut |meta: &RxMeta, packet: &[u8]| {
            let back = to(meta.dst, meta.src);
            match read(packet) {
                Some((PING, number)) => answer = Some((back, PING, number, packet.len())),
                Some((DATA, number)) => {
                    seen = number + 1;
                    answer = Some((back, ACK, seen, HEADER));
                }
                Some((STOP, _)) => stop = true,
                _ => {}
            }
        })?;
        if let Some((back, kind, number, len)) = answer {
            if kind == ACK && seen >= acknowledged && seen < acknowledged + 2 * BURST {
                continue;
            }
            if kind == ACK {
                acknowledged = seen;
            }
            queue(port, &back, kind, number, len);
            port.flush()?;
        }
    }
    Ok(())
}

fn measure(port: &mut UdpPort, local: IpAddr, peer: IpAddr) -> Result<(), Error> {
    let to = to(local, peer);
    let result = measure_all(port, &to, &mut std::io::stdout());
    // The far end must stop in any case.
    queue(port, &to, STOP, 0, HEADER);
    port.flush()?;
    result
}

fn measure_all(port: &mut UdpPort, to: &TxMeta, out: &mut impl Write) -> Result<(), Error> {
    writeln!(
        out,
        "{:>8} {:>10} {:>10} {:>10}",
        "bytes", "p50 us", "p99 us", "min us"
    )?;
    for len in [24, 64, 1040, 4112] {
        half_round_trip(port, to, len, out)?;
    }
    writeln!(
        out,
        "{:>8} {:>10} {:>10} {:>10}",
        "bytes", "Gb/s", "Mpps", "stalls"
    )?;
    for len in [64, 1040, 2064, 4112] {
        throughput(port, to, len, out)?;
    }
    for (name, value) in port.counters().each().filter(|(_, value)| *value > 0) {
        writeln!(out, "{name} {value}")?;
    }
    Ok(())
}

fn half_round_trip(
    port: &mut UdpPort,
    to: &TxMeta,
    len: usize,
    out: &mut impl Write,
) -> Result<(), Error> {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    let mut lost_in_a_row = 0;
    for turn in 0..WARM_UP + ROUND_TRIPS {
        let time = round_trip(port, to, turn as u64, len)?;
        lost_in_a_row = if time.is_some() { 0 } else { lost_in_a_row + 1 };
        if turn >= WARM_UP {
            times.extend(time.map(|time| time / 2));
        }
        if lost_in_a_row == 25 {
            return Err("no answer for 5 s: does the far end run?".into());
        }
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 1000).min(times.len() - 1)].as_nanos();
    let us = |share| at(share) as f64 / 1000.0;
    writeln!(
        out,
        "{len:>8} {:>10.2} {:>10.2} {:>10.2}",
        us(500),
        us(990),
        us(0)
    )?;
    Ok(())
}

/// Returns `None` if no answer came, because a packet was lost.
fn round_trip(
    port: &mut UdpPort,
    to: &TxMeta,
    number: u64,
    len: usize,
) -> Result<Option<Duration>, Error> {
    let start = Instant::now();
    queue(port, to, PING, number, len);
    port.flush()?;
    let mut back = false;
    while !back {
        port.receive(64, &mut |_: &RxMeta, packet: &[u8]| {
            back |= read(packet) == Some((PING, number));
        })?;
        if start.elapsed() > Duration::from_millis(200) {
            return Ok(None);
        }
    }
    Ok(Some(start.elapsed()))
}

fn throughput(
    port: &mut UdpPort,
    to: &TxMeta,
    len: usize,
    out: &mut impl Write,
) -> Result<(), Error> {
    // A small packet takes far more memory than its bytes.
    let window = (port.capabilities().receive_buffer_bytes / (len + 1024)) as u64;
    let (mut sent, mut acknowledged) = (0, 0);
    let start = Instant::now();
    let (mut progress, mut stalls) = (start, 0);
    while start.elapsed() < THROUGHPUT_TIME {
        let room = (acknowledged + window).saturating_sub(sent).min(BURST);
        for _ in 0..room {
            sent += u64::from(queue(port, to, DATA, sent, len));
        }
        port.flush()?;
        let before = acknowledged;
        port.receive(64, &mut |_: &RxMeta, packet: &[u8]| {
            if let Some((ACK, number)) = read(packet) {
                acknowledged = number;
            }
        })?;
        if acknowledged != before {
            progress = Instant::now();
        } else if progress.elapsed() > Duration::from_millis(50) {
            // Packets in flight are lost.
            acknowledged = sent;
            progress = Instant::now();
            stalls += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let packets = acknowledged as f64 / seconds;
    let gigabits = packets * len as f64 * 8e-9;
    writeln!(
        out,
        "{len:>8} {gigabits:>10.2} {:>10.3} {stalls:>10}",
        packets * 1e-6
    )?;
    Ok(())
}
