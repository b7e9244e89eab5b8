//! Multicast groups.

use std::net::IpAddr;

use roce_port::Port;

use crate::pair;
use crate::support::{open, packet, receive, receive_now, send, to};

/// Every port that has joined a group receives the group's packets, including the sender's port.
/// The group is their destination. Ports that have left the group receive nothing.
#[test]
fn packets_to_a_group_reach_all_members() {
    let (a, b) = pair(90);
    let group = IpAddr::from([239, 101, 90, 1]);
    let (mut sender, mut other) = (open(a), open(b));
    for port in [&mut sender, &mut other] {
        port.join(group).expect("the loopback interface can");
        port.join(group).expect("twice does nothing");
        assert_eq!(port.fds().len(), 2);
    }
    let sent: Vec<Vec<u8>> = (0..20).map(|number| packet(number, 1000)).collect();
    for bytes in &sent {
        send(&mut sender, &to(a, group), bytes);
    }
    assert!(sender.flush().expect("the interface is there"));
    for port in [&mut sender, &mut other] {
        let received = receive(port, sent.len());
        for (received, sent) in received.iter().zip(&sent) {
            assert_eq!((received.meta.src, received.meta.dst), (a, group));
            assert_eq!(received.bytes, *sent);
        }
    }
    // Changing the addresses does not end a membership. Leaving does.
    other.set_addresses(vec![b]);
    assert_eq!(other.fds().len(), 2);
    other.leave(group);
    other.leave(b);
    assert_eq!(other.fds().len(), 1);
    send(&mut sender, &to(a, group), &packet(0, 100));
    assert!(sender.flush().expect("the interface is there"));
    assert_eq!(receive(&mut sender, 1).len(), 1);
    let mut none = Vec::new();
    receive_now(&mut other, &mut none);
    assert!(none.is_empty(), "it has left");
}

#[test]
fn only_multicast_addresses_are_joined() {
    let (a, _) = pair(91);
    let mut port = open(a);
    let error = port
        .join(IpAddr::from([10, 0, 0, 1]))
        .expect_err("no group");
    assert!(error.to_string().contains("10.0.0.1"), "{error}");
}
