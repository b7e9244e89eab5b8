//! Tests the properties of ports and interfaces.

use roce_port::Port;
use roce_udp::{UdpPort, UdpPortConfig};

use crate::pair;
use crate::support::loopback_config;

#[test]
fn a_port_can_move_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<UdpPort>();
}

#[test]
fn the_receive_buffer_is_the_size_that_the_kernel_granted() {
    let (near, _) = pair(14);
    let sized = |receive_buffer_bytes| {
        UdpPort::new(UdpPortConfig {
            receive_buffer_bytes,
            ..loopback_config(near)
        })
        .capabilities()
        .receive_buffer_bytes
    };
    // Every kernel's limit is above 64 KiB.
    assert_eq!(sized(64 << 10), 64 << 10);
    assert!(sized(1 << 30) >= sized(64 << 10));
}
