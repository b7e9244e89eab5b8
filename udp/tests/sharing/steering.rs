//! Tests the steering of packets as ports come and go.

use super::*;
use roce_udp::PartClaim;

#[test]
fn packets_are_steered_by_the_destination_qpn() {
    let address = fresh_address();
    let mut ports: Vec<_> = [0, 1, 2].map(|part| (part, open(address, part))).into();
    assert_steering(address, &mut ports, &[3, 4, 77, QpnRange::COUNT - 1]);
}

#[test]
fn a_lone_port_has_an_ordinary_socket_until_another_joins() {
    let address = fresh_address();
    let mut first = open(address, 0);
    assert_eq!(bound(address).len(), 1);
    let from = sender(address);
    for part in [0, 1, 77] {
        from.send(&packet(part, 5)).expect("sent");
    }
    assert_eq!(waiting(&mut first, 3), [(0, 5), (1, 5), (77, 5)]);
    let second = open(address, 1);
    assert_eq!(bound(address).len(), 2);
    let mut ports = vec![(0, first), (1, second)];
    assert_steering(address, &mut ports, &[2, 77]);
    // The group remains after the other member has left, because other processes may hold the
    // sockets.
    ports.pop();
    assert_steering(address, &mut ports, &[1, 2, 77]);
}

#[test]
fn the_first_member_may_have_any_part_also_over_ipv6() {
    let (address, _in_use) = ipv6_address();
    let mut ports: Vec<_> = [5, 3].map(|part| (part, open(address, part))).into();
    assert_steering(address, &mut ports, &[0, 4, 6]);
}

#[test]
fn steering_stays_correct_as_ports_come_and_go() {
    let address = fresh_address();
    let mut state = 7_u32;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut ports: Vec<(u8, UdpPort)> = Vec::new();
    let stays = open(address, 1);
    for _ in 0..60 {
        let number = [0, 2, 3, 4, 5, 6, 7, 8][draw(8)];
        match ports.iter().position(|(part, _)| *part == number) {
            Some(index) => drop(ports.swap_remove(index)),
            None => ports.push((number, open(address, number))),
        }
        let absent: Vec<u8> = (0..12)
            .filter(|number| ports.iter().all(|(part, _)| part != number))
            .collect();
        assert_steering(address, &mut ports, &absent);
    }
    drop((ports, stays));
    assert_nothing_left(address);
}

#[test]
fn many_ports_open_at_once() {
    let address = fresh_address();
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || (number, open(address, number))))
            .collect();
        let opened = opened
            .into_iter()
            .map(|thread| thread.join().expect("opened"));
        let mut ports: Vec<_> = opened.collect();
        assert_steering(address, &mut ports, &[8, 9]);
    });
}

#[test]
fn a_part_belongs_to_one_port() {
    // No interface has this number.
    let first = PartClaim::take(0x7fff_0001).expect("free");
    let second = PartClaim::take(0x7fff_0001).expect("free");
    let elsewhere = PartClaim::take(0x7fff_0002).expect("free");
    let numbers = [&first, &second, &elsewhere].map(|claim| claim.part().number());
    assert_eq!(numbers, [0, 1, 0]);
    drop(first);
    let again = PartClaim::take(0x7fff_0001).expect("free again");
    assert_eq!(again.part().number(), 0);
    let rest: Vec<_> = (2..QpnRange::COUNT - 1)
        .map(|_| PartClaim::take(0x7fff_0001).expect("free"))
        .collect();
    assert_eq!(rest.len(), usize::from(QpnRange::COUNT) - 3);
    let error = PartClaim::take(0x7fff_0001).expect_err("all are taken");
    assert!(error.to_string().contains("127 open devices"), "{error}");
}

#[test]
fn a_socket_that_is_not_shared_is_reported() {
    let address = fresh_address();
    let taken = UdpSocket::bind((address, 4791)).expect("nobody else has it");
    let error = try_open(address, 0).err().expect("taken").to_string();
    for part in ["4791", "another program", "ss -ulnp", "rdma_rxe"] {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
    drop(taken);
    let _free = open(address, 0);
    let mut alone = UdpPort::new(support::loopback_config(address));
    let error = alone.activate(address).expect_err("it shares with nobody");
    assert!(error.to_string().contains("another program"), "{error}");
}

/// A process may open a device many times. Each member of a group needs the sockets of all parts
/// before its own, but the process holds each socket once.
#[test]
fn the_members_of_one_process_hold_each_socket_once() {
    const MEMBERS: u8 = 40;
    let address = fresh_address();
    let mut ports: Vec<_> = (0..MEMBERS)
        .map(|number| (number, open(address, number)))
        .collect();
    let sockets: Vec<String> = bound(address)
        .into_iter()
        .map(|(inode, _)| format!("socket:[{inode}]"))
        .collect();
    assert_eq!(sockets.len(), usize::from(MEMBERS));
    let files = fs::read_dir("/proc/self/fd").expect("proc");
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let held = links
        .filter(|link| sockets.iter().any(|socket| link.as_os_str() == &**socket))
        .count();
    // The process holds each socket once, and each member has two more descriptors of its own.
    assert!(held <= 3 * sockets.len(), "{held} descriptors");
    assert_steering(address, &mut ports, &[MEMBERS, MEMBERS + 1]);
    drop(ports);
    assert_nothing_left(address);
}
