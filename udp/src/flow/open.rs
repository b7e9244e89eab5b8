//! Opening a flow's socket.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;

use super::{FlowSocket, Key};
use crate::ROCE_UDP_PORT;
use crate::bind::new_socket;
use crate::config::UdpPortConfig;
use crate::prepare::{prepare_to_send, set_class_and_priority};
use crate::sys::address::socket_address;
use crate::sys::options;

/// The number of source ports to try.
const MAX_SOURCE_PORTS: u16 = 8;

/// A classic BPF program that drops all packets: a single instruction that returns 0.
const DROP_ALL: [libc::sock_filter; 1] = [libc::sock_filter {
    code: 0x06,
    jt: 0,
    jf: 0,
    k: 0,
}];

/// Opens the socket. `address_socket` is the socket of the flow's source address.
pub(super) fn open(
    config: &UdpPortConfig,
    key: &Key,
    address_socket: BorrowedFd<'_>,
) -> io::Result<FlowSocket> {
    let Key { to, source_port } = *key;
    let socket = new_socket(to.src)?;
    // The calling thread may have moved to another network namespace.
    if options::namespace_of(socket.as_fd()) != options::namespace_of(address_socket) {
        return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
    }
    // No peer sends to this port on purpose.
    options::attach_program(socket.as_fd(), libc::SO_ATTACH_FILTER, &DROP_ALL)?;
    prepare_to_send(&socket, config, to.src)?;
    set_class_and_priority(&socket, config, &to)?;
    // rule: CA17-9-time-to-live, CA17-17-hop-limit
    if to.hop_limit != 0 {
        let socket = SockRef::from(&socket);
        match to.src {
            IpAddr::V4(_) => socket.set_ttl_v4(to.hop_limit.into())?,
            IpAddr::V6(_) => socket.set_unicast_hops_v6(to.hop_limit.into())?,
        }
    }
    let source_port = (0..MAX_SOURCE_PORTS)
        .map(|step| 0xc000 | source_port.wrapping_add(step))
        .find(|&port| {
            let source = socket_address(to.src, port, config.interface_index);
            socket.bind(&source.into()).is_ok()
        })
        .ok_or(io::ErrorKind::AddrInUse)?;
    let peer = socket_address(to.dst, ROCE_UDP_PORT, config.interface_index);
    socket.connect(&peer.into())?;
    Ok(FlowSocket {
        key: *key,
        source_port,
        socket,
        next_id: 0,
        id_is_known: false,
        sent_since_check: 0,
        queued: 0,
        last_used: 0,
        unusable_until: 0,
        segment_bytes: 0,
        retried: false,
    })
}
