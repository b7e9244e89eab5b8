//! Which request a NAK refuses. A NAK names only a PSN: the request has the rest.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use roce_wire::{AtomicEth, Opcode, Operation, Psn, Qpn, Reth, Syndrome, Transport};

use super::flow::NakKind;
use super::packet::{Icrc, RocePacket};
use crate::object::{Object, hex64};

/// The pairs of sender and receiver whose requests are kept. The pair that came first goes first.
const MAX_PAIRS: usize = 256;

/// The last requests that are kept of each pair of hosts.
const MAX_REQUESTS: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    qpn: Qpn,
    psn: Psn,
    opcode: Opcode,
    reth: Option<Reth>,
    atomic: Option<AtomicEth>,
    payload_len: usize,
}

/// The last requests of each direction between two hosts.
#[derive(Debug, Default)]
pub(super) struct Requests {
    between: HashMap<(IpAddr, IpAddr), VecDeque<Request>>,
    /// The pairs, in the order of their first requests.
    pairs: VecDeque<(IpAddr, IpAddr)>,
}

/// A request that a NAK refuses, or asks for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The number of its record.
    number: u64,
    opcode_name: &'static str,
    memory: Option<Memory>,
    verb: &'static str,
}

/// The remote memory that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    va: String,
    rkey: u32,
    /// Bytes of the whole message.
    length: u32,
    /// The first byte of this packet in the message.
    offset: u32,
    /// Bytes of this packet; of a READ, those that it requests.
    bytes: u32,
}

impl Requests {
    /// Takes a packet. If it is a NAK, returns the request that it is about, if only one can be.
    pub(super) fn take(&mut self, packet: &RocePacket, ignores_icrc: bool) -> Option<Refused> {
        let bth = packet.bth?;
        if packet.error.is_some() || (matches!(packet.icrc, Icrc::Bad(_)) && !ignores_icrc) {
            return None;
        }
        let envelope = &packet.envelope;
        // NAKs answer no other services.
        if !matches!(bth.opcode.transport(), Transport::Rc | Transport::Xrc) {
            return None;
        }
        if bth.opcode.is_request() {
            self.keep(
                (envelope.src, envelope.dst),
                Request {
                    number: packet.number,
                    qpn: bth.dest_qpn,
                    psn: bth.psn,
                    opcode: bth.opcode,
                    reth: packet.ext.reth,
                    atomic: packet.ext.atomic,
                    payload_len: packet.payload_len,
                },
            );
            return None;
        }
        let verb = match packet.ext.aeth?.syndrome {
            Syndrome::Nak(code) => match NakKind::of(code) {
                NakKind::PsnSequenceError => "asks again for",
                _ => "refuses",
            },
            Syndrome::RnrNak(_) => "finds no receive for",
            Syndrome::Ack(_) | Syndrome::Reserved(_) => return None,
        };
        let requests = self.between.get(&(envelope.dst, envelope.src))?;
        let at = find(requests, bth.psn)?;
        let request = &requests[at];
        Some(Refused {
            number: request.number,
            opcode_name: request.opcode.info().name,
            memory: memory(requests, at),
            verb,
        })
    }

    fn keep(&mut self, pair: (IpAddr, IpAddr), request: Request) {
        if !self.between.contains_key(&pair) {
            if self.pairs.len() == MAX_PAIRS
                && let Some(first) = self.pairs.pop_front()
            {
                self.between.remove(&first);
            }
            self.pairs.push_back(pair);
        }
        let requests = self.between.entry(pair).or_default();
        if requests.len() == MAX_REQUESTS {
            requests.pop_front();
        }
        requests.push_back(request);
    }
}

/// The last request with a PSN, if all that have it go to one QP.
fn find(requests: &VecDeque<Request>, psn: Psn) -> Option<usize> {
    let mut with_psn = (0..requests.len())
        .rev()
        .filter(|at| requests[*at].psn == psn);
    let last = with_psn.next()?;
    with_psn
        .all(|at| requests[at].qpn == requests[last].qpn)
        .then_some(last)
}

/// The memory that a request uses. Only the first packet of a WRITE names it.
fn memory(requests: &VecDeque<Request>, at: usize) -> Option<Memory> {
    let request = &requests[at];
    if let Some(atomic) = request.atomic {
        return Some(Memory {
            va: hex64(atomic.va),
            rkey: atomic.rkey,
            length: 8,
            offset: 0,
            bytes: 8,
        });
    }
    let bytes = match request.opcode.operation() {
        Operation::Write => u32::try_from(request.payload_len).ok()?,
        _ => request.reth?.dma_len,
    };
    let of_reth = |reth: Reth, offset: u32| Memory {
        va: hex64(reth.va),
        rkey: reth.rkey,
        length: reth.dma_len,
        offset,
        bytes,
    };
    if let Some(reth) = request.reth {
        return Some(of_reth(reth, 0));
    }
    let first = requests
        .iter()
        .take(at)
        .rev()
        .find(|before| before.qpn == request.qpn && before.reth.is_some())?;
    let reth = first.reth?;
    let packets = request.psn.get().wrapping_sub(first.psn.get()) & 0xff_ffff;
    let offset = u64::from(packets) * first.payload_len as u64;
    // Otherwise the first packet of this message is not in the capture.
    let is_inside = offset + u64::from(bytes) <= u64::from(reth.dma_len);
    let offset = u32::try_from(offset).ok().filter(|_| is_inside)?;
    (first.opcode.operation() == Operation::Write).then(|| of_reth(reth, offset))
}

impl Refused {
    pub(super) fn json(&self) -> Object {
        let object = Object::default()
            .with("number", self.number)
            .with("opcode_name", self.opcode_name);
        let Some(memory) = &self.memory else {
            return object;
        };
        object
            .with("va", memory.va.as_str())
            .with("rkey", memory.rkey)
            .with("length", memory.length)
            .with("offset", memory.offset)
            .with("bytes", memory.bytes)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packet {}, {}",
            self.verb, self.number, self.opcode_name
        )?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let Memory {
            va,
            rkey,
            length,
            offset,
            bytes,
        } = memory;
        if bytes == length {
            write!(f, " of {length} bytes")?;
        } else {
            write!(f, " of {bytes} bytes from byte {offset} of {length} on")?;
        }
        write!(f, " at va {va} with rkey {rkey:#010x}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Sender, packet, request, response, usual_pcap};
    use super::super::tests::{json, print};
    use roce_wire::{NakCode, Opcode, PacketRepr, RnrTimer, Syndrome};

    const TO: u32 = 0x12;
    const BACK: u32 = 0x34;

    /// A capture of these requests with their payloads, and of a response.
    fn capture(requests: &[(PacketRepr, usize)], nak: Syndrome, psn: u32) -> Vec<u8> {
        let there = Sender::v4(false);
        let mut frames: Vec<_> = requests
            .iter()
            .map(|(packet, payload)| there.frame(*packet, *payload))
            .collect();
        let answer = response(Opcode::RC_ACKNOWLEDGE, BACK, psn, nak);
        frames.push(Sender::v4(true).frame(answer, 0));
        usual_pcap(&frames)
    }

    /// The last line's words about the response.
    fn told(file: &[u8]) -> String {
        let (text, _) = print(file, &[]);
        let line = text.lines().rfind(|line| line.contains("Acknowledge"));
        let line = line.expect("a response");
        let (_, told) = line.split_once(" msn 5").expect("an AETH");
        told.trim().to_owned()
    }

    const ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccessError);

    #[test]
    fn a_nak_is_about_a_request_and_its_memory() {
        let write = request(Opcode::RC_WRITE_ONLY, TO, 7, 64);
        let file = capture(&[(write, 64)], ACCESS, 7);
        assert_eq!(
            told(&file),
            "refuses packet 1, RC RDMA WRITE Only of 64 bytes at va 0x00007f0012345678 with rkey \
             0x11223344"
        );
        let (packets, _) = json(&file, &[]);
        let refused = &packets[1]["request"];
        assert_eq!(refused["number"], 1);
        assert_eq!(refused["opcode_name"], "RC RDMA WRITE Only");
        assert_eq!(refused["va"], "0x00007f0012345678");
        assert_eq!(refused["length"], 64);
        assert!(packets[0].get("request").is_none());
    }

    /// Over the end of the PSNs. Only the first packet has the address.
    #[test]
    fn a_part_of_a_write_is_told_by_its_place_in_the_message() {
        let packets = [
            (request(Opcode::RC_WRITE_FIRST, TO, 0xff_ffff, 2100), 1024),
            (packet(Opcode::RC_WRITE_MIDDLE, TO, 0), 1024),
            (packet(Opcode::RC_WRITE_LAST, TO, 1), 52),
        ];
        let place = |psn| told(&capture(&packets, ACCESS, psn));
        assert!(
            place(0).contains("Middle of 1024 bytes from byte 1024 of 2100 on at va"),
            "{}",
            place(0)
        );
        assert!(
            place(1).contains("Last of 52 bytes from byte 2048 of 2100 on at va"),
            "{}",
            place(1)
        );
        // Without the first packet, nothing is known of the memory.
        let file = capture(&packets[1..], ACCESS, 1);
        assert_eq!(told(&file), "refuses packet 2, RC RDMA WRITE Last");
    }

    #[test]
    fn other_naks_ask_for_a_request_or_find_no_receive() {
        let send = [(packet(Opcode::RC_SEND_ONLY, TO, 9), 8)];
        let again = capture(&send, Syndrome::Nak(NakCode::PsnSequenceError), 9);
        assert_eq!(told(&again), "asks again for packet 1, RC SEND Only");
        let timer = RnrTimer::SHORTEST;
        let not_ready = capture(&send, Syndrome::RnrNak(timer), 9);
        assert_eq!(
            told(&not_ready),
            "finds no receive for packet 1, RC SEND Only"
        );
        let lost = capture(&send, Syndrome::Nak(NakCode::PsnSequenceError), 8);
        assert_eq!(told(&lost), "");
    }

    /// Two QPs of the same hosts have sent the PSN.
    #[test]
    fn a_nak_that_may_be_about_several_requests_is_not_explained() {
        let send = |qpn| (packet(Opcode::RC_SEND_ONLY, qpn, 9), 8);
        assert_eq!(told(&capture(&[send(TO), send(TO + 1)], ACCESS, 9)), "");
        assert_eq!(
            told(&capture(&[send(TO), send(TO)], ACCESS, 9)),
            "refuses packet 2, RC SEND Only"
        );
        // Nobody refuses a datagram.
        let datagram = (packet(Opcode::UC_SEND_ONLY, TO + 1, 9), 8);
        assert_eq!(
            told(&capture(&[send(TO), datagram], ACCESS, 9)),
            "refuses packet 1, RC SEND Only"
        );
    }
}
