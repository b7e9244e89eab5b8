use super::*;
use roce_stack::Flow;
use roce_wire::Qpn;
use std::net::Ipv4Addr;

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn to(dst: IpAddr) -> TxMeta {
    TxMeta {
        src: NEAR,
        dst,
        traffic_class: 2,
        hop_limit: 0,
        version: RoceVersion::V2,
    }
}

/// Sends one packet. Returns the covered fields of its slot.
fn send(port: &mut impl Port, dst: IpAddr, byte: u8) -> IpCovered {
    let slot = port
        .reserve_run(&to(dst), Flow::new(Qpn::QP0, Qpn::QP0), None, 4, 1)
        .expect("room");
    slot.bytes.fill(byte);
    let ip = slot.ip;
    port.commit();
    ip
}

fn received(port: &mut impl Port, budget: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = port.receive(budget, &mut |_: &RxMeta, packet: &[u8]| {
        bytes.push(packet[0])
    });
    assert_eq!(count.expect("received"), bytes.len());
    bytes
}

#[test]
fn packets_come_out_in_order_and_go_in_by_address() {
    let mut near = MemoryPort::new(MemoryIp::V4, 100);
    let mut far = MemoryPort::new(MemoryIp::V4, 100);
    far.activate(FAR).expect("activated");
    for byte in 0..5 {
        send(&mut near, FAR, byte);
        send(&mut near, NEAR, 0xff);
    }
    assert_eq!((near.queued(), near.flush().expect("flushed")), (10, false));
    far.arrived.extend(near.out.drain(..));
    assert_eq!(received(&mut far, 2), [0, 1]);
    assert_eq!(received(&mut far, 9), [2, 3, 4]);
    let counters = far.counters();
    assert_eq!((counters.rx_packets, counters.rx_foreign), (5, 5));
    assert!(near.flush().expect("flushed"));
}

#[test]
fn a_reservation_that_is_not_committed_is_not_sent_and_keeps_its_identification() {
    let mut port = MemoryPort::new(MemoryIp::V4Numbered, 100).poisoned();
    let first = port
        .reserve_run(&to(FAR), Flow::new(Qpn::QP0, Qpn::QP0), None, 4, 1)
        .expect("room");
    assert_eq!(first.bytes, [POISON; 4]);
    let abandoned = first.ip;
    assert_eq!(send(&mut port, FAR, 1), abandoned);
    assert_ne!(send(&mut port, FAR, 2), abandoned);
    assert_eq!(port.out.len(), 2);
    port.commit();
    assert_eq!(port.out.len(), 2, "nothing is reserved");
}

#[test]
fn room_and_length_are_limited() {
    let mut port = MemoryPort::new(MemoryIp::V4Hidden, 100);
    port.max_queued = 1;
    send(&mut port, FAR, 1);
    assert_eq!(port.out[0].meta.ip, IpCovered::V4Hidden);
    let full = port
        .reserve_run(&to(FAR), Flow::new(Qpn::QP0, Qpn::QP0), None, 4, 1)
        .map(|_| ());
    assert_eq!(full, Err(ReserveError::Full));
    let frame = port.out.remove(0);
    port.recycle(frame.bytes);
    let long = port
        .reserve_run(&to(FAR), Flow::new(Qpn::QP0, Qpn::QP0), None, 101, 1)
        .map(|_| ());
    assert_eq!(long, Err(ReserveError::Unsendable));
    let counters = port.counters();
    assert_eq!((counters.tx_queue_full, counters.tx_unsendable), (1, 1));
}

#[test]
fn groups_are_joined_and_left() {
    let group = IpAddr::from([239, 1, 2, 3]);
    let mut port = MemoryPort::new(MemoryIp::V4, 100);
    assert!(port.join(FAR).is_err());
    port.join(group).expect("joined");
    send(&mut port, group, 7);
    let frame = port.out.remove(0);
    port.arrived.push_back(frame.clone());
    assert_eq!(received(&mut port, 1), [7]);
    port.leave(group);
    port.arrived.push_back(frame);
    assert_eq!(received(&mut port, 1), []);
    // An address is no group, and stays.
    port.activate(FAR).expect("activated");
    port.leave(FAR);
    send(&mut port, FAR, 8);
    let frame = port.out.remove(0);
    port.arrived.push_back(frame);
    assert_eq!(received(&mut port, 1), [8]);
}
