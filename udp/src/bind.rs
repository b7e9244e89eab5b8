//! Creates UDP sockets and binds them to RoCE's port.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use roce_port::{PortError, fork};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ROCE_UDP_PORT;
use crate::config::UdpPortConfig;
use crate::sys::address::socket_address;

/// Creates a non-blocking UDP socket of the address's family. Forked children give it up.
pub(crate) fn new_socket(address: IpAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv6() {
        Domain::IPV6
    } else {
        Domain::IPV4
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    fork::give_up_in_children(&socket)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Binds a socket to port 4791 of `address`.
///
/// # Errors
/// If the address can't be bound. The text says why, and what to do.
pub(crate) fn bind(
    socket: &Socket,
    config: &UdpPortConfig,
    address: IpAddr,
) -> Result<(), PortError> {
    let to = socket_address(address, ROCE_UDP_PORT, config.interface_index);
    let interface = &config.interface;
    socket.bind(&to.into()).map_err(|source| {
        let advice = match source.kind() {
            ErrorKind::AddrInUse => format!(
                "another program has it: a process that uses this stack on {interface}, or the \
                 kernel's Soft-RoCE (rdma_rxe). List the sockets with \
                 `ss -ulnp sport = :{ROCE_UDP_PORT}`; stop the program (`rdma link delete` for \
                 Soft-RoCE) or use another address of {interface}"
            ),
            ErrorKind::AddrNotAvailable => format!(
                "{interface} doesn't have the address now, or is still checking that nobody else \
                 has it (IPv6 \"tentative\"). See `ip address show dev {interface}`"
            ),
            _ => format!("the system refuses it to this process; the interface is {interface}"),
        };
        PortError {
            what: format!("binding UDP port {ROCE_UDP_PORT} of {address}: {advice}"),
            source,
        }
    })
}
