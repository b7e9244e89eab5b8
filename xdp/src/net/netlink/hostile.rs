//! A kernel whose messages are those of a script, for the fuzz target `netlink` and for tests.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use roce_stack::{Duration, Instant, RoceVersion};

use super::socket::{Datagram, Kernel};
use super::{Core, Netlink, PathKey};
use crate::net::{CoreConfig, Priority, Tagging};

/// The index of the interface that the core follows.
const INDEX: u32 = 2;
/// The maximum number of paths that the core remembers.
const MAX_PATHS: usize = 8;

/// The bytes of a script, one after the other. After the end, zeros follow.
#[derive(Default)]
struct Script {
    bytes: Vec<u8>,
    at: usize,
}

impl Script {
    fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// The bytes of the next datagram.
    fn datagram(&mut self) -> Vec<u8> {
        let len = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let from = self.at.min(self.bytes.len());
        let to = (from + len).min(self.bytes.len());
        self.at = to;
        self.bytes[from..to].to_vec()
    }
}

/// One of two sockets to the kernel.
struct Scripted {
    script: Rc<RefCell<Script>>,
    buffer: Vec<u8>,
    sequence: u32,
    /// Whether datagrams wait. On the socket of requests, none does before a request.
    has_some: bool,
}

impl Kernel for Scripted {
    fn receive(&mut self) -> io::Result<Datagram<'_>> {
        let mut script = self.script.borrow_mut();
        if !self.has_some || script.is_empty() {
            return Ok(Datagram::None);
        }
        let how = script.byte();
        match how % 8 {
            0 => {
                self.has_some = false;
                return Ok(Datagram::None);
            }
            1 => return Ok(Datagram::Overrun),
            2 => return Err(io::ErrorKind::Other.into()),
            _ => self.buffer = script.datagram(),
        }
        if how & 8 == 0 {
            answer_request(&mut self.buffer, self.sequence);
        }
        Ok(Datagram::Messages(&self.buffer))
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        assert!(request.len() >= 16);
        self.has_some = true;
        Ok(())
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

/// Gives each message of a datagram this sequence number.
fn answer_request(mut messages: &mut [u8], sequence: u32) {
    while let Some((header, _)) = messages.split_first_chunk_mut::<16>() {
        header[8..12].copy_from_slice(&sequence.to_ne_bytes());
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let next = len.max(16).next_multiple_of(4).min(messages.len());
        messages = &mut messages[next..];
    }
}

fn address(number: u8) -> IpAddr {
    match number % 8 {
        0 => IpAddr::from([127, 0, 0, 1]),
        1 => IpAddr::from([10, 0, 0, 1]),
        2 => IpAddr::from([10, 0, 0, 2]),
        3 => IpAddr::from([192, 0, 2, 1]),
        4 => IpAddr::from([224, 0, 0, 9]),
        5 => IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]),
        6 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]),
        _ => IpAddr::from([0; 16]),
    }
}

/// Plays a script: datagrams as events and as answers to the core's requests, and uses of paths
/// between them.
///
/// # Panics
/// If the core asks more than its bounds allow.
pub(crate) fn run_script(script: &[u8]) {
    let script = Rc::new(RefCell::new(Script {
        bytes: script.to_vec(),
        at: 0,
    }));
    let socket = || Scripted {
        script: Rc::clone(&script),
        buffer: Vec::new(),
        sequence: 0,
        has_some: false,
    };
    let mut netlink = Netlink {
        index: INDEX,
        requests: socket(),
        events: socket(),
    };
    let byte = || script.borrow_mut().byte();
    let config = CoreConfig {
        tagging: match byte() % 2 {
            0 => Tagging::None,
            _ => Tagging::Device(Priority::Fixed(3)),
        },
        max_paths: MAX_PATHS,
        roce_v1: byte() % 2 == 1,
    };
    let mut core = Core::new(config, Instant::ZERO);
    let mut now = Instant::ZERO;
    while !script.borrow().is_empty() {
        match byte() % 4 {
            0 => {
                netlink.events.has_some = true;
                let _ = netlink.pass_events(&mut core);
            }
            1 => netlink.serve(&mut core),
            2 => {
                let key = PathKey {
                    src: address(byte()),
                    dst: address(byte()),
                    version: RoceVersion::V2,
                };
                if let Ok(path) = core.find(key) {
                    let header = core.header(path).expect("a path that was found");
                    assert!(header.template.max_transport() <= 1 << 32);
                }
            }
            _ => {
                now = now + Duration::from_millis(u64::from(byte()) * 10);
                core.tick(now);
                let _ = core.take_changes();
            }
        }
    }
    netlink.serve(&mut core);
    assert!(!core.has_requests());
}
