//! Arbitrary bytes, parsed as an Ethernet frame, as an IP packet, and as the data after a Linux
//! cooked header of each EtherType; and received by a port over AF_XDP.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_stack::Instant;
use roce_wire::{Frame, IcrcVerdict, NetworkHeader, ParseError, icrc};
use roce_xdp::net::{Core, CoreConfig, Event, Link, OwnAddress};
use std::net::{IpAddr, Ipv6Addr};

/// The first header that the bytes are parsed as.
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
    arrive(data);
});

/// A port with the frame's destination address returns the packet that the parser found, or drops
/// it for a stated reason.
fn arrive(data: &[u8]) {
    let parsed = Frame::parse_ethernet(data);
    let own = parsed.ok().map(|frame| match frame.network {
        NetworkHeader::V4 { dst, .. } => IpAddr::from(dst),
        NetworkHeader::V6 { dst, .. } => dst.into(),
        NetworkHeader::Grh(grh) => Ipv6Addr::from(grh.dgid).to_canonical(),
    });
    let mac = data.first_chunk().copied().unwrap_or_default();
    for roce_v1 in [false, true] {
        let config = CoreConfig {
            roce_v1,
            ..CoreConfig::default()
        };
        let mut port = Core::new(config, Instant::ZERO);
        port.handle(Event::Link(Link {
            index: 1,
            name: String::new(),
            ethernet: true,
            mac,
            mtu: 9000,
            up: true,
            vlan: None,
        }));
        port.handle(Event::Addresses(
            own.map(|address| OwnAddress {
                address,
                prefix_len: 0,
                usable: true,
            })
            .into_iter()
            .collect(),
        ));
        let Ok(received) = port.parse(data) else {
            continue;
        };
        let frame = parsed.expect("what is handed out parses");
        assert_eq!(received.transport, frame.transport);
        assert_eq!(Some(received.meta.dst), own);
        let is_v1 = matches!(frame.network, NetworkHeader::Grh(_));
        assert_eq!(received.meta.ip == roce_stack::IpCovered::Grh, is_v1);
        assert!(roce_v1 || !is_v1);
    }
}

/// A frame that parses is emitted as a frame that parses to the same value, and the two functions
/// that check an ICRC agree. An error can be printed.
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
