//! What rsockets say on the wire, in captures: each message is checked against the protocol of
//! docs/design/sockets.md.
//!
//! The files in captured/ are of rdma-core 44 at both ends, over Soft-RoCE in two guests: `rstream
//! -S 1000 -I 1 -C 3 -T v -B 8192` and `riostream -S 100 -I 1 -C 2 -T v -B 8192`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use roce_rsockets::wire::{
    ByteOrder, CONNECT_DATA_LEN, ConnectData, Control, ELEMENT_LEN, Element, MAPPING_LEN, Mapping,
    Message,
};
use roce_tests::decode::decode;
use roce_tests::lab::Lab;
use roce_tests::programs::is_installed_or_skip;
use serde_json::Value;

use super::case::Case;
use super::soft_roce::{Family, Run, Server};

/// A message of the conversation, by the end that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Message(Message),
    /// A WRITE without immediate data, of this length.
    Direct(u64),
}

/// A connection in a capture: the client is the end that sent the REQ.
struct Conversation {
    client: End,
    server: End,
}

/// What an end has said, and what it may say.
struct End {
    data: ConnectData,
    said: Vec<Said>,
    /// The memory of the peer that it may fill: what is left of each offer, in order.
    room: VecDeque<Element>,
    /// What the peer has mapped, by place.
    mappings: BTreeMap<u32, Mapping>,
    /// Messages that use credits, and the number up to which it has credits, modulo 2^16.
    sent: u16,
    granted: u16,
    /// The place in the peer's list of elements that it writes next.
    next_place: u32,
    /// The receive buffer, and the half of it that it offers next.
    next_offer: u64,
    psns: BTreeSet<u64>,
}

impl End {
    fn new(data: ConnectData, peer: &ConnectData) -> Self {
        Self {
            said: Vec::new(),
            room: VecDeque::from([peer.buffer]),
            mappings: BTreeMap::new(),
            sent: 0,
            granted: peer.credits,
            next_place: 1 % peer.elements.len,
            next_offer: u64::from(data.buffer.len),
            psns: BTreeSet::new(),
            data,
        }
    }

    /// Checks a WRITE of this end, with its payload, against what the peer has offered.
    fn says(&mut self, peer: &mut Self, write: &Write, payload: &[u8]) {
        let Some(message) = write.message else {
            let mapped = self.mappings.values().find_map(|mapping| {
                let skipped = write.address.checked_sub(mapping.element.address)?;
                (mapping.element.key == write.key).then_some((mapping.element.len, skipped))
            });
            let (len, skipped) = mapped.unwrap_or_else(|| panic!("not mapped: {write:?}"));
            assert!(skipped + write.len <= u64::from(len), "{write:?}");
            return self.said.push(Said::Direct(write.len));
        };
        match message {
            Message::Data(len) => {
                self.uses_credit();
                assert_eq!(u64::from(len), write.len, "{write:?}");
                while self.room.front().is_some_and(|room| room.len == 0) {
                    self.room.pop_front();
                }
                let room = self.room.front_mut().expect("room");
                assert_eq!((room.address, room.key), (write.address, write.key));
                room.address += u64::from(len);
                room.len = room.len.checked_sub(len).expect("the data fit the room");
            }
            Message::Credits(granted) if write.len == 0 => peer.granted = granted,
            Message::Credits(granted) => {
                peer.granted = granted;
                self.offers(peer, write, payload);
            }
            Message::Mapping(place) => {
                self.uses_credit();
                let list = peer.data.elements;
                let skipped = u64::from(list.len) * ELEMENT_LEN as u64;
                let at = list.address + skipped + u64::from(place) * MAPPING_LEN as u64;
                assert_eq!((write.address, write.key), (at, list.key), "{write:?}");
                let bytes = payload.try_into().expect("a mapping");
                peer.mappings
                    .insert(place, Mapping::parse(bytes, peer.data.order));
            }
            Message::Control(_) => assert_eq!(write.len, 0, "{write:?}"),
        }
        let last = self.said.last();
        let ended = Said::Message(Message::Control(Control::Disconnect));
        assert_ne!(last, Some(&ended), "after its end: {write:?}");
        self.said.push(Said::Message(message));
    }

    /// The number of its messages that grant credits.
    fn grants(&self) -> usize {
        let is_grant = |said: &&Said| matches!(said, Said::Message(Message::Credits(_)));
        self.said.iter().filter(is_grant).count()
    }

    fn uses_credit(&mut self) {
        assert_ne!(self.sent, self.granted, "a message without a credit");
        self.sent = self.sent.wrapping_add(1);
    }

    /// A half of the receive buffer becomes free, in the order in which the peer fills them.
    fn offers(&mut self, peer: &mut Self, write: &Write, payload: &[u8]) {
        let list = peer.data.elements;
        let at = list.address + u64::from(self.next_place) * ELEMENT_LEN as u64;
        assert_eq!((write.address, write.key), (at, list.key), "{write:?}");
        self.next_place = (self.next_place + 1) % list.len;
        let bytes = payload.try_into().expect("an element");
        let offer = Element::parse(bytes, peer.data.order);
        let buffer = self.data.buffer;
        let expected = Element {
            address: buffer.address + self.next_offer,
            ..buffer
        };
        assert_eq!(offer, expected);
        self.next_offer = u64::from(buffer.len) - self.next_offer;
        peer.room.push_back(offer);
    }
}

/// A WRITE.
#[derive(Debug)]
struct Write {
    message: Option<Message>,
    address: u64,
    key: u32,
    len: u64,
}

impl Write {
    fn of(packet: &Value) -> Self {
        let reth = &packet["reth"];
        let address = reth["va"].as_str().expect("an address");
        let imm = packet["immdt"].as_u64();
        Self {
            message: imm.map(|imm| Message::parse(imm as u32).expect("a message")),
            address: u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("a number"),
            key: reth["rkey"].as_u64().expect("a key") as u32,
            len: reth["length"].as_u64().expect("a length"),
        }
    }
}

impl Conversation {
    /// Checks each message of the only connection in a capture whose messages are single packets.
    fn of(pcap: &Path) -> Self {
        let packets = decode(pcap);
        let frames = frames(pcap);
        let message = |kind: &str| {
            let is_it = |packet: &&Value| packet["cm"]["type"] == kind;
            packets
                .iter()
                .find(is_it)
                .unwrap_or_else(|| panic!("no {kind}"))
        };
        let (req, rep) = (message("REQ"), message("REP"));
        let [client, server] = [req, rep].map(connect_data);
        let mut ends = [End::new(client, &server), End::new(server, &client)];
        for packet in packets.iter().filter(|packet| packet["reth"].is_object()) {
            // Only packets with a RETH: messages of one packet.
            let name = packet["opcode_name"].as_str().unwrap_or_default();
            assert!(name.starts_with("RC RDMA WRITE Only"), "{packet}");
            let is_client = packet["src"] == req["src"];
            let [from, to] = &mut ends;
            let (from, to) = if is_client { (from, to) } else { (to, from) };
            if !from.psns.insert(packet["psn"].as_u64().expect("a PSN")) {
                continue;
            }
            let number = packet["number"].as_u64().expect("a number") as usize;
            from.says(to, &Write::of(packet), payload(&frames[number - 1], packet));
        }
        let [client, server] = ends;
        Self { client, server }
    }
}

/// The private data of a REQ or a REP. The decoder leaves zeros at the end out.
fn connect_data(packet: &Value) -> ConnectData {
    let mut bytes = private(packet);
    assert!(bytes.len() <= CONNECT_DATA_LEN, "{packet}");
    bytes.resize(CONNECT_DATA_LEN, 0);
    let data = ConnectData::parse(&bytes).expect("of an rsocket");
    assert_eq!(data.encode()[..], bytes, "each bit is known");
    data
}

fn private(packet: &Value) -> Vec<u8> {
    let text = packet["cm"]["private_data"].as_str().expect("private data");
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits
        .map(|pair| byte(pair).expect("hexadecimal"))
        .collect()
}

/// The frames of a pcap file.
fn frames(pcap: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(pcap).expect("a capture");
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let (frame, after) = after.split_at(len as usize);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// The payload of a packet, without pad and ICRC.
fn payload<'a>(frame: &'a [u8], packet: &Value) -> &'a [u8] {
    let number = |name: &str| packet[name].as_u64().unwrap_or_default() as usize;
    let end = frame.len() - roce_wire::ICRC_LEN - number("pad");
    &frame[end - number("payload_len")..end]
}

fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sockets/captured")
        .join(name)
}

const DISCONNECT: Said = Said::Message(Message::Control(Control::Disconnect));

const fn data(len: u32) -> Said {
    Said::Message(Message::Data(len))
}

/// The second half of the receive buffer, with the credits of the private data.
const SECOND_HALF: Said = Said::Message(Message::Credits(384));

#[test]
fn rdma_cores_streams_say_what_the_protocol_says() {
    let Conversation { client, server } = Conversation::of(&captured("rstream.pcap"));
    for end in [&client, &server] {
        let data = end.data;
        assert_eq!((data.order, data.credits), (ByteOrder::Little, 384));
        assert_eq!(
            (data.mappings, data.elements.len, data.buffer.len),
            (Some(0), 2, 8192)
        );
        // The first offer comes right after the connection; then the program's first 16 bytes.
        assert_eq!(end.said[0], SECOND_HALF);
    }
    let expected = [
        SECOND_HALF,
        data(16),
        data(1000),
        data(1000),
        data(1000),
        DISCONNECT,
    ];
    assert_eq!(client.said, expected);
    assert_eq!(server.said, expected);
}

#[test]
fn rdma_cores_mappings_say_what_the_protocol_says() {
    let Conversation { client, server } = Conversation::of(&captured("riostream.pcap"));
    let mapping = Said::Message(Message::Mapping(0));
    for end in [&client, &server] {
        assert_eq!((end.data.mappings, end.data.elements.len), (Some(1), 2));
        assert_eq!(end.mappings.len(), 1);
        let mapped = end.mappings[&0];
        assert_eq!((mapped.offset, mapped.element.len), (0, 100));
    }
    let direct = Said::Direct(100);
    let expected = [SECOND_HALF, mapping, data(16), direct, direct, DISCONNECT];
    assert_eq!(client.said, expected);
    assert_eq!(server.said, expected);
}

/// What our end writes, and what rdma-core's writes to it.
#[test]
fn both_ends_keep_to_the_protocol() {
    if !is_installed_or_skip("rstream") {
        return;
    }
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    // A message is one packet: transfers are not larger than the buffer. With a small one, halves are
    // used up many times; with the default, credits are.
    let small = "-S 500 -I 10 -C 100 -T v -B 1000";
    let many = "-S 100 -I 3 -C 400 -T v";
    for (options, server) in [(small, Server::Theirs), (many, Server::Ours)] {
        let run = Run {
            lab: &lab,
            family: Family::V4,
            server,
        };
        let program = "rstream";
        let capture = lab.capture_start().expect("tcpdump");
        let said = run.of(&Case { program, options });
        let files = capture.stop().expect("captured");
        said.unwrap_or_else(|told| panic!("{server:?}: {told}"));
        let Conversation { client, server } = Conversation::of(&files.guest);
        for end in [&client, &server] {
            assert!(end.grants() > 3, "{:?}", end.said);
        }
        // An end whose peer has disconnected says no more.
        let mut last = [&client, &server].into_iter().map(|end| end.said.last());
        assert!(last.any(|last| last == Some(&DISCONNECT)));
    }
}
