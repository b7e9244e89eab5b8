//! A capture has every packet that the ports counted, each with its outcome.

mod support;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use roce_verbs::observation::{Capture, DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::settings::OpenOptions;
use roce_wire::cm::{CmMad, CmMessage};
use roce_wire::{Frame, IcrcVerdict, Opcode, Qpn, UDP_PORT};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use support::End;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A packet in the file.
#[derive(Debug)]
struct Record {
    interface: u32,
    received: bool,
    comments: Vec<String>,
    frame: Vec<u8>,
}

impl Record {
    fn says(&self, what: &str) -> bool {
        self.comments.iter().any(|comment| comment.contains(what))
    }
}

fn records(path: &Path) -> Vec<Record> {
    let mut reader = PcapNgReader::new(std::fs::File::open(path).expect("there")).expect("pcapng");
    let mut records = Vec::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.expect("whole") else {
            continue;
        };
        let received = packet.options.contains(&EnhancedPacketOption::Flags(1));
        let comments = packet.options.iter().filter_map(|option| match option {
            EnhancedPacketOption::Comment(text) => Some(text.to_string()),
            _ => None,
        });
        records.push(Record {
            interface: packet.interface_id,
            received,
            comments: comments.collect(),
            frame: packet.data.to_vec(),
        });
    }
    records
}

/// The counters of one context that a capture should show.
type Counted = BTreeMap<String, u64>;

fn counted(context: &Context) -> Counted {
    let of_port: BTreeMap<_, _> = context.port_counters().into_iter().collect();
    let fault = |name: &str| of_port.get(name).copied().unwrap_or(0);
    let mut counted = Counted::new();
    counted.insert("sent".into(), of_port["tx_packets"]);
    let twice = fault("fault_duplicated");
    counted.insert("received".into(), of_port["rx_packets"] + twice);
    for name in ["fault_lost", "fault_duplicated", "fault_corrupted"] {
        counted.insert(name.into(), fault(name));
    }
    let counters = context.counters();
    for &reason in DropReason::ALL {
        let name = format!("drop_{}", reason.label());
        counted.insert(name, counters.drops(reason));
    }
    for stat in [Stat::OutOfOrderKept, Stat::DuplicateRequests] {
        counted.insert(stat.label().into(), counters.stat(stat));
    }
    counted
}

/// The same numbers, from the file.
fn captured(records: &[Record], interface: u32, names: &Counted) -> Counted {
    let own = || {
        records
            .iter()
            .filter(move |record| record.interface == interface)
    };
    let count = |name: &String| {
        let found = match name.as_str() {
            "sent" => own().filter(|record| !record.received).count(),
            "received" => own().filter(|record| record.received).count(),
            name => own()
                .filter(|record| record.says(&format!("({name})")))
                .count(),
        };
        (name.clone(), found as u64)
    };
    names.keys().map(count).collect()
}

/// Moves data and returns the counters and the capture. Both ends share the file.
fn run(base: u8, faults: &str) -> (Vec<Counted>, Vec<Record>) {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = Capture::create(dir.path().join("both.pcapng")).expect("made");
    let mut options = OpenOptions::new().capture(capture.clone());
    if !faults.is_empty() {
        options = options.faults(faults.parse().expect("well-formed"));
    }
    let (a, b) = (End::open(base, &options), End::open(base + 1, &options));
    a.connect(&b);
    b.connect(&a);
    for _ in 0..5 {
        a.run(SendOp::Write(b.region.remote(0)));
        a.run(SendOp::Read(b.region.remote(0)));
    }
    // Delayed packets are still arriving. Wait until all that was sent has arrived, and the
    // counters are the same before and after the file is read.
    let give_up = Instant::now() + TIMEOUT;
    loop {
        let before: Vec<_> = [&a, &b].map(|end| counted(&end.context)).into();
        let found = records(capture.path());
        let after: Vec<_> = [&a, &b].map(|end| counted(&end.context)).into();
        let arrived = |to: usize| before[to]["received"] - before[to]["fault_duplicated"];
        let is_all = (0..2).all(|to| arrived(to) == before[1 - to]["sent"]);
        if before == after && is_all || Instant::now() > give_up {
            return (before, found);
        }
    }
}

/// Packets on one host have no ICRC otherwise.
#[test]
fn one_end_with_a_capture_gets_the_icrc_of_all_packets() {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = Capture::create(dir.path().join("one.pcapng")).expect("made");
    let options = OpenOptions::new().capture(capture.clone());
    let (a, b) = (End::open(14, &options), End::open(15, &OpenOptions::new()));
    a.connect(&b);
    b.connect(&a);
    a.run(SendOp::Write(b.region.remote(0)));
    a.run(SendOp::Read(b.region.remote(0)));
    let found = records(capture.path());
    for received in [false, true] {
        assert!(found.iter().any(|record| record.received == received));
    }
    for record in found {
        let frame = Frame::parse_l3_on(0x0800, &record.frame, UDP_PORT).expect("RoCE");
        assert_eq!(frame.icrc_verdict(), IcrcVerdict::Valid, "{record:?}");
    }
}

fn check(counted: &[Counted], records: &[Record]) {
    for (interface, counted) in (0..).zip(counted) {
        assert_eq!(captured(records, interface, counted), *counted);
    }
    for record in records {
        let frame = Frame::parse_l3_on(0x0800, &record.frame, UDP_PORT).expect("RoCE");
        let is_valid = frame.icrc_verdict() == IcrcVerdict::Valid;
        // Some bits are not covered by the ICRC, or are hidden by a socket. The capture shows what
        // the NIC found.
        assert!(is_valid || record.says("fault_corrupted"), "{record:?}");
        let is_dropped = record.says("drop_bad_icrc") || record.says("drop_malformed");
        assert!(is_valid || is_dropped, "{record:?}");
        assert!(!is_valid || !record.says("drop_bad_icrc"), "{record:?}");
    }
}

#[test]
fn every_packet_is_captured_with_its_icrc() {
    let (counted, records) = run(61, "");
    check(&counted, &records);
    assert!(counted[0]["sent"] > 200, "{counted:?}");
    // One end receives the bytes that the other sends, to the last one.
    let frames = |interface, received| {
        let wanted = move |r: &&Record| r.interface == interface && r.received == received;
        let mut frames: Vec<_> = records.iter().filter(wanted).map(|r| &r.frame).collect();
        frames.sort();
        frames
    };
    assert_eq!(frames(0, false), frames(1, true));
    assert_eq!(frames(1, false), frames(0, true));
}

#[test]
fn every_fault_and_every_drop_has_a_comment() {
    let faults = "loss=2%,dup=2%,corrupt=2%,reorder=2%:300us,seed=11";
    let (counted, records) = run(63, faults);
    check(&counted, &records);
    for name in [
        "fault_lost",
        "fault_duplicated",
        "fault_corrupted",
        "drop_bad_icrc",
    ] {
        let all: u64 = counted.iter().map(|counted| counted[name]).sum();
        assert!(all > 0, "{name}: {counted:?}");
    }
    assert!(records.iter().any(|record| record.says("held back for")));
}

/// What a client sends on a connection in which the server sends one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Acknowledgement,
    Dreq,
    Other,
}

fn sent(record: &Record) -> Sent {
    let frame = Frame::parse_l3_on(0x0800, &record.frame, UDP_PORT).expect("RoCE");
    let packet = frame.packet().expect("well-formed");
    if packet.bth.opcode == Opcode::RC_ACKNOWLEDGE {
        return Sent::Acknowledgement;
    }
    match CmMad::parse(packet.payload).map(|mad| mad.message) {
        Ok(CmMessage::Dreq(_)) if packet.bth.dest_qpn == Qpn::QP1 => Sent::Dreq,
        _ => Sent::Other,
    }
}

/// An end that has its peer's last message, and disconnects, acknowledges the message first. The
/// peer's request would be flushed otherwise. Each client is a device of its own: its first packet to the
/// server's waits until that device answers.
#[test]
fn an_acknowledgement_leaves_before_the_dreq_of_its_connection() {
    const CONNECTIONS: usize = 20;
    let dir = tempfile::tempdir().expect("a folder");
    let capture = Capture::create(dir.path().join("client.pcapng")).expect("made");
    let at = support::address(65);
    let open = |options: &OpenOptions| {
        let device = Device::with_address(at).expect("loopback");
        options.open(&device).expect("opened")
    };
    let server = open(&OpenOptions::new());
    let listener = Listener::bind(&server, (at, 0).into()).expect("a free port");
    let to = (at, listener.port()).into();
    let new_qp = |context: &Context| {
        let (pd, cq) = (context.alloc_pd(), context.create_cq(1));
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default());
        (qp.expect("a QP"), cq)
    };
    let options = ConnectOptions::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CONNECTIONS {
                let incoming = listener.accept_within(TIMEOUT).expect("a request");
                let (qp, cq) = new_qp(&server);
                let connection = incoming.accept(qp, &options, b"").expect("established");
                let send = SendRequest::new(1, SendOp::Send, ());
                connection.post_send(&send).expect("posted");
                let done = cq.poll_for(TIMEOUT).expect("no overrun");
                done.expect("completed").ok().expect("acknowledged");
                assert!(connection.wait_for_end(TIMEOUT));
            }
        });
        for _ in 0..CONNECTIONS {
            let client = open(&OpenOptions::new().capture(capture.clone()));
            let (qp, cq) = new_qp(&client);
            qp.to_init(Access::empty()).expect("INIT");
            let receive = RecvRequest {
                wr_id: 2,
                sges: &[],
            };
            qp.post_recv(&receive).expect("posted");
            let connection = Connection::connect(qp, to, &options, b"").expect("accepted");
            let done = cq.poll_for(TIMEOUT).expect("no overrun");
            done.expect("arrived").ok().expect("received");
            assert!(connection.disconnect(TIMEOUT));
        }
    });
    let (mut connections, mut unacknowledged) = (0, 0);
    let mut last = Sent::Other;
    for record in records(capture.path()).iter().filter(|r| !r.received) {
        let now = sent(record);
        // A DREQ may be repeated.
        if now == Sent::Dreq && last != Sent::Dreq {
            connections += 1;
            unacknowledged += usize::from(last != Sent::Acknowledgement);
        }
        last = now;
    }
    assert_eq!((connections, unacknowledged), (CONNECTIONS, 0));
}
