//! Multicast groups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_port::PortError;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use crate::socket::SocketConfig;

/// The joined groups. Each has a socket that receives nothing. While the socket is open, the kernel
/// reports the membership to routers and switches (IGMP, MLD), and lets the NIC's filter pass the
/// group's frames.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<(IpAddr, Socket)>);

impl Groups {
    #[inline]
    pub(super) fn contains(&self, group: IpAddr) -> bool {
        self.0.iter().any(|(joined, _)| *joined == group)
    }

    pub(super) fn join(
        &mut self,
        interface: &SocketConfig,
        group: IpAddr,
    ) -> Result<(), PortError> {
        let failed = |hint, source| PortError {
            what: format!(
                "joining multicast group {group} on {}{hint}",
                interface.interface
            ),
            source,
        };
        if !group.is_multicast() {
            let what = "it is not a multicast address";
            return Err(failed(
                "",
                std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
            ));
        }
        let hint = " (an interface must have an address of the group's family)";
        let socket =
            open_member(interface.interface_index, group).map_err(|source| failed(hint, source))?;
        self.0.push((group, socket));
        Ok(())
    }

    /// Leaves a group. Returns whether it was joined.
    pub(super) fn leave(&mut self, group: IpAddr) -> bool {
        let before = self.0.len();
        self.0.retain(|(joined, _)| *joined != group);
        self.0.len() < before
    }
}

fn open_member(index: u32, group: IpAddr) -> std::io::Result<Socket> {
    let domain = if group.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    // A socket bound to a loopback address receives no packets from the network.
    let loopback: (IpAddr, u16) = match group {
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST.into(), 0),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), 0),
    };
    // If the loopback interface is down, the socket remains unbound, and then receives nothing
    // either.
    let _ = socket.bind(&std::net::SocketAddr::from(loopback).into());
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, index)?,
    }
    Ok(socket)
}
