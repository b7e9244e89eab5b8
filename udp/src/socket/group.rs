//! Multicast groups. Each has a socket of its own, bound to the group's address. The port's other
//! sockets send packets to groups through the port's interface.

use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use roce_port::PortError;
use socket2::{InterfaceIndexOrAddress, Socket};

use crate::config::UdpPortConfig;
use crate::sys::options;

/// Linux's `IPV6_MULTICAST_ALL`, which the libc crate lacks.
const IPV6_MULTICAST_ALL: c_int = 29;

/// Makes a socket that is bound to `group` receive packets that arrive for the group on the
/// interface, and on no other interface.
///
/// # Errors
/// If the kernel refuses. The text says which group, and which limits apply.
pub(super) fn join(
    socket: &Socket,
    config: &UdpPortConfig,
    group: IpAddr,
) -> Result<(), PortError> {
    let index = config.interface_index;
    let joined = match group {
        IpAddr::V4(group) => {
            // Kernels before 2.6.31 lack this option; the bound address is then the only filter.
            let _ = set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0);
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
        }
        IpAddr::V6(group) => {
            // Kernels before 4.20 lack this option.
            let _ = set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
            socket.join_multicast_v6(&group, index)
        }
    };
    joined.map_err(|source| PortError {
        what: format!(
            "joining multicast group {group} on {} (the kernel limits how many a socket may join, \
             and an interface must have an address of the group's family)",
            config.interface
        ),
        source,
    })
}

/// Makes packets that a socket sends to groups leave through the interface. If that fails, the
/// interface has no multicast, and the port drops and counts packets to groups.
pub(super) fn set_multicast_interface(socket: &Socket, config: &UdpPortConfig, address: IpAddr) {
    let index = config.interface_index;
    let _ = match address {
        IpAddr::V4(_) => options::set_multicast_interface_v4(socket.as_fd(), index),
        IpAddr::V6(_) => socket.set_multicast_if_v6(index),
    };
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    options::set(socket.as_fd(), level, name, value)
}
