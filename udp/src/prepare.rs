//! Options of sockets that send: fragmentation, buffers, traffic class and priority.

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use roce_stack::TxMeta;
use socket2::{SockRef, Socket};

use crate::config::UdpPortConfig;
use crate::sys::options;

/// Sets the options without which the packets would not conform to RoCEv2.
pub(crate) fn set_required_options(socket: &Socket, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(_) => {
            // This sets "don't fragment", and so an unconnected socket sends identification 0. With
            // IP_PMTUDISC_DO, anyone could send an ICMP message with a small path MTU, and the kernel
            // would refuse long packets for ten minutes.
            set(
                socket,
                libc::IPPROTO_IP,
                // rule: CA17-7-dont-fragment
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_PROBE,
            )?;
            socket.set_recv_tos_v4(true)
        }
        IpAddr::V6(_) => {
            let no_fragments = libc::IPV6_PMTUDISC_PROBE;
            set(
                socket,
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                no_fragments,
            )?;
            socket.set_recv_tclass_v6(true)
        }
    }
}

/// Sets the buffers as large as the kernel allows; with CAP_NET_ADMIN, as large as configured.
pub(crate) fn set_buffers(socket: &Socket, config: &UdpPortConfig) {
    let (forced, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
    set_buffer(socket, forced, plain, config.receive_buffer_bytes);
    let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
    set_buffer(socket, forced, plain, config.send_buffer_bytes);
}

/// Ignores errors, because a smaller buffer works, too. The port reads the granted size back.
fn set_buffer(socket: &Socket, forced: c_int, plain: c_int, bytes: usize) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    let _ = set(socket, libc::SOL_SOCKET, forced, bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, plain, bytes));
}

/// Sets the options of a socket that only sends, from `address`.
///
/// # Errors
/// If the kernel lacks an option without which the packets would not conform to RoCEv2.
pub(crate) fn prepare_to_send(
    socket: &Socket,
    config: &UdpPortConfig,
    address: IpAddr,
) -> io::Result<()> {
    set_required_options(socket, address)?;
    let (forced, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
    set_buffer(socket, forced, plain, config.send_buffer_bytes);
    Ok(())
}

/// Sets the priority of packets that a socket sends from now on.
pub(crate) fn set_priority(socket: &Socket, priority: u8) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PRIORITY);
    options::set(socket.as_fd(), level, name, priority.into())
}

/// Sets the traffic class of packets that a socket sends from now on. Over IPv4, the kernel then
/// also derives the priority from the class.
pub(crate) fn set_class(socket: &Socket, address: IpAddr, class: u8) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match address {
        IpAddr::V4(_) => socket.set_tos_v4(class.into()),
        IpAddr::V6(_) => socket.set_tclass_v6(class.into()),
    }
}

/// Sets the traffic class of a socket that sends only to `to`, and its priority if priorities are
/// configured.
pub(crate) fn set_class_and_priority(
    socket: &Socket,
    config: &UdpPortConfig,
    to: &TxMeta,
) -> io::Result<()> {
    set_class(socket, to.src, to.traffic_class)?;
    if let Some(map) = &config.priorities {
        // If the process may not set this priority, the kernel's default for the class stays in
        // force.
        let _ = set_priority(socket, map.of(to.traffic_class));
    }
    Ok(())
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    options::set(socket.as_fd(), level, name, value)
}
