//! Bundles, which the kernel delivers in one buffer, and packets that leave as one datagram.

use super::*;
use roce_stack::{Flow, Transmit};
use roce_wire::Qpn;

/// Sends the packets as one datagram that the kernel segments.
pub(super) fn send_in_one<const N: usize>(from: &UdpSocket, packets: &[[u8; N]]) {
    let size = N as libc::c_int;
    // SAFETY: the pointer is to an `int` that lives through the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(from),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "the kernel has UDP_SEGMENT");
    from.send(packets.as_flattened()).expect("sent");
}

#[test]
fn a_mixed_bundle_stops_coalescing() {
    let address = fresh_address();
    let (mut first, mut second) = (open(address, 0), open(address, 1));
    let from = sender(address);
    let mixed = [packet(0, 1), packet(1, 2), packet(0, 3), packet(1, 4)];
    // After the first member has learned of the second, the first mixed bundle that it gets is the
    // last one. From then on, the kernel takes bundles apart, and the filter sees each packet.
    let mut foreign = 0;
    until("bundles are taken apart", || {
        let before = *first.counters();
        send_in_one(&from, &mixed);
        assert_eq!(waiting(&mut first, 2), [(0, 1), (0, 3)]);
        assert_eq!(waiting(&mut second, 0), []);
        let now = *first.counters();
        foreign = now.rx_foreign;
        now.rx_bundles == before.rx_bundles + 2
    });
    assert!(foreign >= 2, "{foreign}");
    send_in_one(&from, &[packet(1, 5), packet(0, 6), packet(1, 7)]);
    assert_eq!(waiting(&mut second, 2), [(1, 5), (1, 7)]);
    let counters = *second.counters();
    assert_eq!((counters.rx_foreign, counters.rx_bundles), (0, 2));
}

/// Any sender can send a mixed bundle, so one costs each member at most a number of packets that
/// are received one by one.
#[test]
fn one_mixed_bundle_does_not_stop_coalescing_for_ever() {
    let address = fresh_address();
    let mut ports = [0, 1].map(|part| (part, open(address, part)));
    let from = sender(address);
    until("the first member has learned of the second", || {
        send_in_one(&from, &[packet(0, 1), packet(1, 2)]);
        waiting(&mut ports[0].1, 0);
        ports[0].1.counters().rx_joining_paused == 1
    });
    for (part, port) in &mut ports {
        let own = [packet(*part, 1), packet(*part, 2)];
        // The numbers of bundles in which the packets of each datagram are received.
        let received: Vec<u64> = std::iter::repeat_with(|| {
            let before = port.counters().rx_bundles;
            send_in_one(&from, &own);
            assert_eq!(waiting(port, 2), [(*part, 1), (*part, 2)]);
            port.counters().rx_bundles - before
        })
        .take(600)
        .collect();
        assert_eq!(received[0], 2, "part {part}: the bundle is taken apart");
        assert_eq!(received.last(), Some(&1), "part {part}: joined again");
        assert!(received.is_sorted_by(|a, b| a >= b), "{received:?}");
    }
    assert_eq!(ports[0].1.counters().rx_joining_paused, 1);
    assert_eq!(ports[1].1.counters().rx_joining_paused, 0);
}

#[test]
fn bundles_with_packets_for_no_process_keep_coalescing() {
    let address = fresh_address();
    let mut port = open(address, 0);
    let from = sender(address);
    for round in 1..4 {
        send_in_one(&from, &[packet(0, 1), packet(50, 2), packet(0, 3)]);
        assert_eq!(waiting(&mut port, 2), [(0, 1), (0, 3)]);
        let counters = *port.counters();
        assert_eq!((counters.rx_foreign, counters.rx_bundles), (round, round));
    }
}

#[test]
fn packets_for_different_processes_leave_in_separate_datagrams() {
    let (near, far) = (fresh_address(), fresh_address());
    let mut from = open(near, 0);
    let mut ports: Vec<_> = [0, 1].map(|part| (part, open(far, part))).into();
    let to = support::to(near, far);
    let order = [0, 0, 1, 1, 0, 1, 0, 0, 0, 1];
    for (number, &part) in order.iter().enumerate() {
        let bytes = packet(part, number as u8);
        let qpn = Qpn::from_bits(u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]));
        let slot = from
            .reserve_run(&to, Flow::new(Qpn::QP0, qpn), None, bytes.len(), 1)
            .expect("room");
        slot.bytes.copy_from_slice(&bytes);
        from.commit();
    }
    assert!(from.flush().expect("sent"));
    assert_eq!(from.counters().tx_datagrams, 6);
    for (part, port) in &mut ports {
        let own = order.iter().enumerate().filter(|(_, to)| *to == part);
        let expected: Vec<_> = own.map(|(number, to)| (*to, number as u8)).collect();
        assert_eq!(waiting(port, expected.len()), expected, "part {part}");
        assert_eq!(port.counters().rx_foreign, 0);
    }
}
