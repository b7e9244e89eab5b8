use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

/// The control messages for a datagram: level, kind and value.
fn messages(datagram: &Outgoing<'_>) -> Vec<(c_int, c_int, u64)> {
    let mut control = Control {
        bytes: [0xee; CONTROL_BYTES],
        len: 0,
    };
    control.fill(datagram);
    assert!(control.len <= CONTROL_BYTES);
    let (header, mut at) = (size_of::<libc::cmsghdr>(), 0);
    let mut found = Vec::new();
    while at < control.len {
        let field = |at: usize, len: usize| {
            let mut value = [0; 8];
            value[..len].copy_from_slice(&control.bytes[at..at + len]);
            u64::from_le_bytes(value)
        };
        let len = field(at, size_of::<usize>()) as usize;
        let level = field(at + size_of::<usize>(), 4) as c_int;
        let kind = field(at + size_of::<usize>() + 4, 4) as c_int;
        found.push((level, kind, field(at + header, len - header)));
        at += len.next_multiple_of(8);
    }
    assert_eq!(at, control.len);
    found
}

fn outgoing(dst: IpAddr) -> Outgoing<'static> {
    Outgoing {
        bytes: &[],
        to: Some((dst, 4791)),
        scope: 0,
        traffic_class: Some(0xba),
        hop_limit: 0,
        segment: None,
    }
}

#[test]
#[cfg(target_endian = "little")]
fn class_always_and_the_rest_where_it_is_asked_for() {
    let v4 = outgoing(IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(messages(&v4), [(libc::IPPROTO_IP, libc::IP_TOS, 0xba)]);
    let all = Outgoing {
        hop_limit: 64,
        segment: Some(4112),
        ..outgoing(IpAddr::V6(Ipv6Addr::LOCALHOST))
    };
    let expected = [
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0xba),
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, 64),
        (libc::SOL_UDP, libc::UDP_SEGMENT, 4112),
    ];
    assert_eq!(messages(&all), expected);
}
