//! Tests that the kernel accepts this crate's headers, and that this crate accepts the kernel's.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use pnet_datalink::{Channel, Config, DataLinkReceiver, DataLinkSender};
use roce_stack::IpCovered;
use roce_xdp::net::{Net, PacketFields, RxDrop};

use super::lab::{FAR_MAC, Lab, ip, path};

const TIMEOUT: Duration = Duration::from_secs(30);

const ENDS: [(&str, &str); 3] = [
    ("10.90.0.1", "10.90.0.2"),
    ("fd90::1", "fd90::2"),
    ("10.90.0.1", "10.91.0.1"),
];

/// A socket for whole frames on `near`.
fn frames(lab: &Lab) -> (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>) {
    lab.near.inside(|| {
        let near = pnet_datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == "near")
            .expect("the interface is there");
        let config = Config {
            read_timeout: Some(TIMEOUT),
            read_buffer_size: 1 << 16,
            ..Config::default()
        };
        match pnet_datalink::channel(&near, config).expect("root may") {
            Channel::Ethernet(sender, receiver) => (sender, receiver),
            _ => panic!("no Ethernet"),
        }
    })
}

/// A socket of `far` at the port of RoCE.
fn far_socket(lab: &Lab, address: IpAddr) -> UdpSocket {
    let socket = lab
        .far
        .inside(|| UdpSocket::bind((address, 4791)).expect("far's own address"));
    if address.is_ipv6() {
        accept_no_checksum(&socket);
    }
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

/// IPv6 accepts datagrams without a checksum only if enabled (RFC 6935).
fn accept_no_checksum(socket: &UdpSocket) {
    const UDP_NO_CHECK6_RX: libc::c_int = 102;
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to an `int` that lives through the call, and its size is
    // given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_NO_CHECK6_RX,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A frame around `transport`.
fn frame(net: &mut Net, src: &str, dst: &str, transport: &[u8]) -> Vec<u8> {
    let header = net.header_for(path(src, dst)).expect("a way there");
    assert_eq!(header.waits_for, None);
    let mut frame = vec![0; header.template.header_len()];
    let fields = PacketFields {
        transport_len: transport.len(),
        traffic_class: 0x6a,
        hop_limit: 7,
        src_port: 50_000,
        id: 77,
    };
    header.template.write(&mut frame, &fields);
    frame.extend_from_slice(transport);
    frame
}

#[test]
fn the_kernel_accepts_frames_of_a_template() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let (mut sender, _receiver) = frames(&lab);
    for (src, dst) in ENDS {
        let far = far_socket(&lab, ip(dst));
        lab.until_sent_to(&mut net, src, dst, FAR_MAC);
        let longest = net
            .header_for(path(src, dst))
            .expect("a way there")
            .template
            .max_transport();
        for len in [1, 20, 1068, longest] {
            let transport: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let frame = frame(&mut net, src, dst, &transport);
            sender
                .send_to(&frame, None)
                .expect("one frame")
                .expect("sent");
            let mut bytes = [0; 2000];
            let (got, from) = far.recv_from(&mut bytes).expect("it arrives");
            assert_eq!(bytes[..got], transport, "{len} bytes to {dst}");
            assert_eq!(from, SocketAddr::new(ip(src), 50_000));
        }
    }
}

#[test]
fn frames_of_the_kernel_are_parsed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let (_sender, mut receiver) = frames(&lab);
    for (near, far) in ENDS {
        let socket = far_socket(&lab, ip(far));
        for len in [1_usize, 5, 17, 1068, 1400] {
            let transport: Vec<u8> = (0..len).map(|at| (at * 5) as u8).collect();
            let to = SocketAddr::new(ip(near), 4791);
            socket.send_to(&transport, to).expect("far has a route");
            loop {
                // ARP and neighbour discovery pass here, too.
                let bytes = receiver.next().expect("it arrives");
                let Ok(received) = net.parse(bytes) else {
                    continue;
                };
                assert_eq!(received.transport, transport, "{len} bytes from {far}");
                assert_eq!(received.meta.src, ip(far));
                assert_eq!(received.meta.dst, ip(near));
                assert_eq!(received.meta.src_port, 4791);
                assert_eq!(received.meta.ip == IpCovered::V6, ip(far).is_ipv6());
                break;
            }
        }
    }
    let dropped: u64 = RxDrop::ALL
        .into_iter()
        .filter(|&reason| net.counters().rx_dropped(reason) > 0)
        .inspect(|reason| {
            // Dropped frames are other traffic of the link, and no RoCE frames.
            let others = [RxDrop::EtherType, RxDrop::NotUdp];
            assert!(others.contains(reason), "{reason}");
        })
        .count() as u64;
    assert!(dropped > 0, "ARP passed by unseen");
}
