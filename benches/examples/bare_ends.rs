//! Both ends of a transport without a protocol: what a sender and a receiver of packets with a CRC
//! can reach on this machine.
//!
//! ```text
//! bare_ends serve ADDRESS          receive, check and copy, until the sender has finished
//! bare_ends send ADDRESS SECONDS   send, and print the rate in Gb/s of payload
//! ```
//!
//! The sender copies payload from a region of 4 MiB into packets and computes their CRC. It passes
//! the packets to the kernel by reference, 15 in a datagram. The receiver computes the CRC and
//! copies the payload to another region. Nothing limits the sender and nothing is retransmitted:
//! only the payload with a correct CRC counts.

use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice, vmsplice};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{IoSlice, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error>;

/// The bytes of a packet before its payload: BTH and RETH.
const HEADERS: usize = 28;
const PAYLOAD: usize = 4096;
const PACKET: usize = HEADERS + PAYLOAD + 4;
/// Packets in a datagram.
const PACKETS: usize = 15;
const DATAGRAM: usize = PACKETS * PACKET;
/// The registered memory of each end.
const REGION: usize = 4 << 20;
/// Datagrams before the sender reuses their memory. It doesn't know whether the receiver has read
/// them; a datagram that is overwritten too early fails its CRC and doesn't count.
const SLOTS: usize = 64;
/// Each datagram begins at a page.
const SLOT: usize = 64 << 10;
const PORT: u16 = 4791;
/// Sent when the sender has finished. Its answer is the number of bytes received.
const STOP: &[u8] = b"stop";

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", address] => serve(address),
        ["send", address, seconds] => send(address, Duration::from_secs(seconds.parse()?)),
        _ => Err("usage: bare_ends serve ADDRESS | send ADDRESS SECONDS".into()),
    }
}

fn serve(address: &str) -> Result<(), Error> {
    let socket = UdpSocket::bind((address, PORT))?;
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))?;
    setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    println!("listening");
    std::io::stdout().flush()?;
    let mut region = vec![7; REGION];
    let mut bytes = vec![0; 64 << 10];
    let (mut received, mut at) = (0_u64, 0);
    loop {
        let (len, from) = socket.recv_from(&mut bytes)?;
        if &bytes[..len] == STOP {
            socket.send_to(&received.to_be_bytes(), from)?;
            return Ok(());
        }
        for packet in bytes[..len].chunks_exact(PACKET) {
            let (covered, crc) = packet.split_at(HEADERS + PAYLOAD);
            if crc32fast::hash(covered).to_le_bytes() == crc {
                region[at..at + PAYLOAD].copy_from_slice(&covered[HEADERS..]);
                at = (at + PAYLOAD) % REGION;
                received += PAYLOAD as u64;
            }
        }
    }
}

fn send(address: &str, time: Duration) -> Result<(), Error> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect((address, PORT))?;
    setsockopt(&socket, sockopt::SndBufForce, &(8 << 20))?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &i32::try_from(PACKET)?)?;
    let (out, into) = nix::unistd::pipe()?;
    fcntl(&into, FcntlArg::F_SETPIPE_SZ(1 << 20))?;
    let region = vec![7; REGION];
    let mut memory = vec![0; (SLOTS + 1) * SLOT];
    let first = memory.as_ptr().align_offset(4096);
    let (mut slot, mut at, mut sent) = (0, 0, 0_u32);
    let start = Instant::now();
    while start.elapsed() < time {
        let datagram = &mut memory[first + slot * SLOT..][..DATAGRAM];
        slot = (slot + 1) % SLOTS;
        for packet in datagram.chunks_exact_mut(PACKET) {
            packet[..4].copy_from_slice(&sent.to_le_bytes());
            packet[HEADERS..][..PAYLOAD].copy_from_slice(&region[at..][..PAYLOAD]);
            let (covered, crc) = packet.split_at_mut(HEADERS + PAYLOAD);
            crc.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
            at = (at + PAYLOAD) % REGION;
            sent = sent.wrapping_add(1);
        }
        let mut left = vmsplice(
            into.as_fd(),
            &[IoSlice::new(datagram)],
            SpliceFFlags::empty(),
        )?;
        while left > 0 {
            left -= splice(&out, None, &socket, None, left, SpliceFFlags::empty())?;
        }
    }
    let received = ask(&socket)?;
    println!("{}", received as f64 * 8e-9 / start.elapsed().as_secs_f64());
    Ok(())
}

/// The number of bytes that the receiver has counted.
fn ask(socket: &UdpSocket) -> Result<u64, Error> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    setsockopt(socket, sockopt::UdpGsoSegment, &0)?;
    for _ in 0..50 {
        socket.send(STOP)?;
        let mut bytes = [0; 8];
        if socket.recv(&mut bytes).is_ok() {
            return Ok(u64::from_be_bytes(bytes));
        }
    }
    Err("the receiver does not answer".into())
}
