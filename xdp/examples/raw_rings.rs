//! Measures bare AF_XDP between two interfaces, without any protocol, which is the upper limit for
//! everything built on it. The loops use only this crate's rings.
//!
//! ```text
//! raw_rings serve INTERFACE LOCAL           the far end, until the other end stops it
//! raw_rings INTERFACE LOCAL PEER PEER_MAC   measure against that far end
//! ```
//!
//! Prints JSON: half the round trip of small frames with both ends spinning, and the number of
//! large frames per second that a loop that only sends puts into its ring, and that a loop that
//! only receives takes out of its own. The program is attached according to `ROCE_XDP_MODE`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use roce_wire::{FrameRepr, Link, NetworkHeader, UDP_PORT, UdpHeader};
use roce_xdp::program::{AttachMode, Attached, Program, RedirectConfig};
use roce_xdp::queue::NoRoom;
use roce_xdp::socket::{self, SocketConfig, SocketQueue};

type Error = Box<dyn std::error::Error>;

const HEADERS: usize = 14 + 20 + 8;
/// The purpose of a frame, after its headers.
const PING: u8 = 0;
const DATA: u8 = 1;
const REPORT: u8 = 2;
const STOP: u8 = 3;

/// The length of a frame of a WRITE of 8 bytes: headers, BTH, RETH, payload, ICRC.
const SMALL: usize = HEADERS + 12 + 16 + 8 + 4;
/// The length of a frame of a WRITE Middle with path MTU 4096: headers, BTH, payload, ICRC.
const LARGE: usize = HEADERS + 12 + 4096 + 4;

const WARM_UP: usize = 2_000;
const ROUND_TRIPS: usize = 25_000;
const FLOOD_TIME: Duration = Duration::from_millis(500);
/// A frame without an answer within this time counts as lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(20);

/// The rings of one interface, with the program that fills them.
struct Rings {
    queue: SocketQueue,
    local: Ipv4Addr,
    mac: [u8; 6],
    attached: Attached,
    _program: Program,
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", interface, local] => {
            let mut rings = Rings::open(interface, local.parse()?)?;
            println!("listening");
            std::io::stdout().flush()?;
            rings.serve()
        }
        [interface, local, peer, peer_mac] => {
            let mut rings = Rings::open(interface, local.parse()?)?;
            let peer_mac: pnet_datalink::MacAddr = peer_mac.parse()?;
            let headers = rings.headers(peer.parse()?, peer_mac.octets());
            let result = rings.measure(&headers);
            // The far end must stop in any case.
            rings.send(&headers, STOP, SMALL)?;
            rings.queue.flush()?;
            result
        }
        _ => Err("usage: raw_rings serve INTERFACE LOCAL | INTERFACE LOCAL PEER PEER_MAC".into()),
    }
}

/// The mode that `ROCE_XDP_MODE` names.
fn mode() -> Result<AttachMode, Error> {
    match std::env::var("ROCE_XDP_MODE").as_deref() {
        Err(_) | Ok("auto") => Ok(AttachMode::default()),
        Ok("native") => Ok(AttachMode::Native),
        Ok("generic") => Ok(AttachMode::Generic),
        Ok(other) => Err(format!("ROCE_XDP_MODE is {other:?}, not auto, native, generic").into()),
    }
}

impl Rings {
    fn open(name: &str, local: Ipv4Addr) -> Result<Self, Error> {
        let all = pnet_datalink::interfaces();
        let found = all.into_iter().find(|interface| interface.name == name);
        let interface = found.ok_or_else(|| format!("there is no interface {name}"))?;
        let mac = interface.mac.ok_or("it has no MAC address")?.octets();
        // Frames of `LARGE` bytes fit, as on a link with MTU 9000.
        let config = SocketConfig::new(name, interface.index, 9000);
        let program = Program::load(1, &RedirectConfig::default())?;
        program.add_address(IpAddr::V4(local))?;
        let attached = program.attach(name, interface.index, mode()?)?;
        let mut queues = socket::open(&config)?;
        let queue = queues.pop().ok_or("no queue")?;
        program.set_socket(queue.kernel().queue(), queue.kernel().as_fd())?;
        Ok(Self {
            queue,
            local,
            mac,
            attached,
            _program: program,
        })
    }

    /// The headers of frames of `SMALL` bytes and of `LARGE` bytes.
    fn headers(&self, peer: Ipv4Addr, peer_mac: [u8; 6]) -> [[u8; HEADERS]; 2] {
        let repr = FrameRepr {
            link: Some(Link {
                dst: peer_mac,
                src: self.mac,
                vlans: [None; 2],
            }),
            network: NetworkHeader::V4 {
                src: self.local.octets(),
                dst: peer.octets(),
                tos: 0,
                ttl: 64,
                id: 0,
                flags_fragment: 0x4000,
                options: &[],
            },
            udp: Some(UdpHeader {
                src_port: UDP_PORT,
                dst_port: UDP_PORT,
                checksum: 0,
            }),
        };
        [SMALL, LARGE].map(|len| {
            let mut headers = [0; HEADERS];
            repr.emit_headers(&mut headers, len - HEADERS);
            headers
        })
    }

    /// Queues a frame. Returns false if there is no space.
    fn send(&mut self, headers: &[[u8; HEADERS]; 2], kind: u8, len: usize) -> Result<bool, Error> {
        let frame = match self.queue.reserve(len) {
            Ok(frame) => frame,
            Err(NoRoom::Full) => return Ok(false),
            Err(NoRoom::Length) => return Err(format!("no frame can have {len} bytes").into()),
        };
        frame[..HEADERS].copy_from_slice(&headers[usize::from(len == LARGE)]);
        frame[HEADERS] = kind;
        self.queue.commit()?;
        Ok(true)
    }

    /// Sends a small frame and waits for the answer. Returns the number in it.
    fn exchange(&mut self, headers: &[[u8; HEADERS]; 2], kind: u8) -> Result<u64, Error> {
        loop {
            self.send(headers, kind, SMALL)?;
            self.queue.flush()?;
            let sent = Instant::now();
            let mut answer = None;
            while answer.is_none() && sent.elapsed() < LOSS_TIMEOUT {
                self.queue.receive(64, &mut |frame| {
                    if let Some(bytes) = frame.contiguous().and_then(|b| b.get(HEADERS..))
                        && bytes.first() == Some(&kind)
                    {
                        let number = bytes.get(1..9).and_then(|n| n.try_into().ok());
                        answer = number.map(u64::from_le_bytes);
                    }
                })?;
            }
            if let Some(number) = answer {
                return Ok(number);
            }
        }
    }

    /// Answers requests and counts other frames until a STOP arrives.
    fn serve(&mut self) -> Result<(), Error> {
        let mut count = 0_u64;
        let mut asked: Option<Vec<u8>> = None;
        let mut stop = false;
        while !stop {
            self.queue.receive(64, &mut |frame| {
                let first = frame.pieces().next().unwrap_or_default();
                match first.get(HEADERS) {
                    Some(&DATA) => count += 1,
                    Some(&(PING | REPORT)) => asked = Some(first.to_vec()),
                    Some(&STOP) => stop = true,
                    _ => {}
                }
            })?;
            if let Some(question) = asked.take()
                && let Ok(answer) = self.queue.reserve(question.len())
            {
                answer.copy_from_slice(&question);
                // Swap the MAC addresses and the IPv4 addresses.
                answer[..6].copy_from_slice(&question[6..12]);
                answer[6..12].copy_from_slice(&question[..6]);
                answer[26..30].copy_from_slice(&question[30..34]);
                answer[30..34].copy_from_slice(&question[26..30]);
                answer[HEADERS + 1..HEADERS + 9].copy_from_slice(&count.to_le_bytes());
                self.queue.commit()?;
                self.queue.flush()?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, headers: &[[u8; HEADERS]; 2]) -> Result<(), Error> {
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..WARM_UP {
            self.exchange(headers, PING)?;
        }
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            self.exchange(headers, PING)?;
            times.push(start.elapsed().as_nanos() as f64 / 2e3);
        }
        times.sort_by(f64::total_cmp);

        let (start, mut sent) = (Instant::now(), 0_u64);
        while start.elapsed() < FLOOD_TIME {
            for _ in 0..32 {
                sent += u64::from(self.send(headers, DATA, LARGE)?);
            }
            self.queue.flush()?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let received = self.exchange(headers, REPORT)?;
        println!(
            "{{\"mode\": \"{}\", \"zero_copy\": {}, \"frame_bytes\": {LARGE}, \
             \"half_round_trip_us\": {:.3}, \"sent_per_second\": {:.0}, \
             \"received_per_second\": {:.0}}}",
            self.attached.mode().name(),
            self.queue.kernel().is_zero_copy(),
            times[times.len() / 2],
            sent as f64 / seconds,
            received as f64 / seconds,
        );
        Ok(())
    }
}
