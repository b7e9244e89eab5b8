use super::*;
use crate::sys::memory::Blocks;

fn empty() -> Bundle<'static> {
    Bundle {
        bytes: &[],
        from: None,
        traffic_class: 0,
        segment: None,
        truncated: false,
    }
}

/// A control message as the kernel writes it.
fn message(level: c_int, kind: c_int, data: &[u8]) -> Vec<u8> {
    let len = size_of::<libc::cmsghdr>() + data.len();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(len.next_multiple_of(8), 0xee);
    bytes
}

#[test]
fn class_and_segment_size_are_found_among_others() {
    let mut control = message(libc::SOL_SOCKET, libc::SO_TIMESTAMP, &[7; 16]);
    control.extend(message(libc::IPPROTO_IP, libc::IP_TOS, &[0xba]));
    control.extend(message(
        libc::SOL_UDP,
        libc::UDP_GRO,
        &1040_i32.to_ne_bytes(),
    ));
    let mut bundle = empty();
    read_control(&control, &mut bundle);
    assert_eq!((bundle.traffic_class, bundle.segment), (0xba, Some(1040)));

    let mut bundle = empty();
    let class = 0x03_i32.to_ne_bytes();
    read_control(
        &message(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
        &mut bundle,
    );
    assert_eq!((bundle.traffic_class, bundle.segment), (3, None));
}

#[test]
fn a_segment_size_that_is_none_is_ignored() {
    for size in [0_i32, -1, i32::MIN] {
        let mut bundle = empty();
        read_control(
            &message(libc::SOL_UDP, libc::UDP_GRO, &size.to_ne_bytes()),
            &mut bundle,
        );
        assert_eq!(bundle.segment, None);
    }
}

#[test]
fn any_bytes_at_all_come_to_an_end() {
    let good = message(libc::IPPROTO_IP, libc::IP_TOS, &[2]);
    for cut in 0..good.len() {
        let mut bundle = empty();
        read_control(&good[..cut], &mut bundle);
        let whole = cut > size_of::<libc::cmsghdr>();
        assert_eq!(
            bundle.traffic_class,
            if whole { 2 } else { 0 },
            "{cut} bytes"
        );
    }
    let mut state = 1_u64;
    for len in (0..200).cycle().take(20_000) {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Mostly zero, so that lengths are often plausible.
                if state >> 62 == 0 {
                    (state >> 40) as u8
                } else {
                    0
                }
            })
            .collect();
        let mut bundle = empty();
        read_control(&bytes, &mut bundle);
        assert_ne!(bundle.segment, Some(0));
    }
}

#[test]
fn nothing_is_handed_out_beyond_what_came() {
    let ring = ReceiveRing::new();
    for index in [0, 1, RECEIVE_BATCH, usize::MAX] {
        assert!(ring.bundle(index).is_none());
    }
}

/// Where datagrams begin that the kernel has not copied when they were sent: see [`Buffer`].
#[test]
fn bundles_are_received_where_blocks_begin_in_their_pages() {
    let mut ring = ReceiveRing::new();
    ring.prepare_headers(RECEIVE_BATCH);
    let sent = Blocks::map(1).expect("memory");
    for parts in &ring.parts {
        let distance = parts
            .vector
            .iov_base
            .addr()
            .wrapping_sub(sent.bytes(0).as_ptr().addr());
        assert_eq!(distance % 4096, 0);
    }
}
