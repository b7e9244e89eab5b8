//! Any bytes, taken for an Ethernet frame, for an IP packet, and for what follows a
//! Linux cooked header of each EtherType.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_wire::{Frame, IcrcVerdict, ParseError, icrc};

/// What the bytes are taken for.
#[derive(Clone, Copy)]
enum Start {
    Ethernet,
    Ip,
    EtherType(u16),
}

impl Start {
    fn parse(self, bytes: &[u8]) -> Result<Frame<'_>, ParseError> {
        match self {
            Start::Ethernet => Frame::parse_ethernet(bytes),
            Start::Ip => Frame::parse_ip(bytes),
            Start::EtherType(ethertype) => Frame::parse_l3(ethertype, bytes),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    check(Start::Ethernet, data);
    check(Start::Ip, data);
    for ethertype in [0x0800, 0x86dd, 0x8915, 0x8100] {
        check(Start::EtherType(ethertype), data);
    }
});

/// A frame that parses is emitted as one that parses to the same; the two ways to check
/// an ICRC agree. An error can be printed.
fn check(start: Start, data: &[u8]) {
    let frame = match start.parse(data) {
        Ok(frame) => frame,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let verdict = frame.icrc_verdict();
    if let Err(error) = frame.packet() {
        assert!(!error.to_string().is_empty());
    }

    let repr = frame.repr();
    let mut emitted = vec![0; repr.buffer_len(frame.transport.len())];
    assert_eq!(repr.emit(&mut emitted, frame.transport), emitted.len());
    assert!(emitted.len() <= data.len());
    let again = start.parse(&emitted).expect("what was emitted parses");
    assert_eq!(again.transport, frame.transport);
    // A GRH's payload length is the transport's in both, so headers compare whole.
    assert_eq!(again.repr(), repr);
    if emitted == data[..emitted.len()] {
        assert_eq!(again.icrc_verdict(), verdict);
    }

    let Some(ip) = frame.network.ip_header() else {
        return;
    };
    // RoCE v1 has no ports.
    let (src_port, dst_port) = frame.udp.map_or((0, 0), |udp| (udp.src_port, udp.dst_port));
    let fast = icrc::verify(&ip, src_port, dst_port, again.transport);
    match again.icrc_verdict() {
        IcrcVerdict::Valid => assert_eq!(fast, Ok(())),
        IcrcVerdict::Invalid(mismatch) => assert_eq!(fast, Err(mismatch)),
        IcrcVerdict::Missing => assert!(fast.is_err()),
    }
}
