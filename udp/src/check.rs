//! Checks whether hosts accept packets at RoCEv2's UDP port.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

use crate::ROCE_UDP_PORT;
use crate::sys::options;

/// The maximum number of datagrams, and of errors, that one call of [`PortCheck::refused`] reads.
const MAX_READS: usize = 256;

/// What a probe contains: a base transport header of a version that does not exist, and an ICRC of
/// zeros. Every NIC drops it for its version (IBTA 1.7, 9.2.5), before it looks for a QP. An empty
/// datagram would say as much, but over IPv6 it crashes hosts with Soft-RoCE of Linux 6.1.
const PROBE: [u8; 16] = {
    let mut probe = [0; 16];
    // SEND only, of RC. Its header is the shortest.
    probe[0] = 0x04;
    probe[1] = 0x0f;
    probe[2] = 0xff;
    probe[3] = 0xff;
    probe
};

/// Why a host does not accept packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// The host answers "port unreachable", or somebody who forged that answer.
    PortUnreachable,
    /// This host can't deliver packets to it: there is no route, or ARP or neighbour discovery
    /// finds nobody.
    HostUnreachable,
}

/// A socket that probes whether hosts accept packets. It is bound to a port of its own, because
/// several processes may share port 4791, and the kernel could report an error to any of them.
///
/// Its descriptor polls as an error when [`PortCheck::refused`] has hosts to report.
#[derive(Debug)]
pub struct PortCheck {
    socket: UdpSocket,
    local: IpAddr,
    interface_index: u32,
}

impl PortCheck {
    /// Opens a socket at a local address. The interface's index matters only for link-local
    /// addresses.
    ///
    /// # Errors
    /// If the system refuses the socket or an option.
    pub fn new(local: IpAddr, interface_index: u32) -> io::Result<Self> {
        let socket = UdpSocket::bind(address_of(local, 0, interface_index))?;
        socket.set_nonblocking(true)?;
        let fd = socket.as_fd();
        match local {
            IpAddr::V4(_) => options::set(fd, libc::SOL_IP, libc::IP_RECVERR, 1)?,
            IpAddr::V6(_) => options::set(fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?,
        }
        Ok(Self {
            socket,
            local,
            interface_index,
        })
    }

    /// Sends a packet that every host drops to port 4791 of `remote`. Returns
    /// [`Refusal::HostUnreachable`] if there is no route.
    pub fn ask(&self, remote: IpAddr) -> Option<Refusal> {
        let to = address_of(remote, ROCE_UDP_PORT, self.interface_index);
        let send = || self.socket.send_to(&PROBE, to);
        // The first error may belong to an earlier datagram, and a copy of it stays in the error
        // queue. With any other error, the datagram counts as lost.
        let error = send().or_else(|_| send()).err()?;
        let has_no_route = error.kind() == io::ErrorKind::NetworkUnreachable;
        has_no_route.then_some(Refusal::HostUnreachable)
    }

    /// The hosts that do not accept packets, as far as became known since the last call.
    pub fn refused(&self) -> Vec<(IpAddr, Refusal)> {
        // No peer sends to this socket's port on purpose, so discard what arrived.
        for _ in 0..MAX_READS {
            if self.socket.recv_from(&mut [0]).is_err() {
                break;
            }
        }
        let mut refused: Vec<_> = (0..MAX_READS)
            .map_while(|_| self.next_error())
            .flatten()
            .collect();
        refused.sort_unstable();
        refused.dedup();
        refused
    }

    /// Reads the next error. Returns `None` if there is none, and `Some(None)` if the error says
    /// nothing about a host. The inner value is the host that the datagram was sent to.
    fn next_error(&self) -> Option<Option<(IpAddr, Refusal)>> {
        let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.socket.as_raw_fd();
        let received = recvmsg::<SockaddrStorage>(fd, &mut [], Some(&mut control), flags).ok()?;
        let mut messages = received.cmsgs().into_iter().flatten();
        let refusal = messages.find_map(|message| self.refusal(&message));
        let remote = received.address.and_then(ip_of);
        Some(remote.zip(refusal))
    }

    /// What a control message with an ICMP error says about the host.
    fn refusal(&self, message: &ControlMessageOwned) -> Option<Refusal> {
        let fields =
            |error: &libc::sock_extended_err| (error.ee_origin, error.ee_type, error.ee_code);
        let (fields, sender) = match message {
            ControlMessageOwned::Ipv4RecvErr(error, sender) => {
                let sender =
                    sender.map(|sender| IpAddr::from(sender.sin_addr.s_addr.to_ne_bytes()));
                (fields(error), sender)
            }
            ControlMessageOwned::Ipv6RecvErr(error, sender) => {
                let sender = sender.map(|sender| IpAddr::from(sender.sin6_addr.s6_addr));
                (fields(error), sender)
            }
            _ => return None,
        };
        match fields {
            (libc::SO_EE_ORIGIN_ICMP, 3, 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => {
                Some(Refusal::PortUnreachable)
            }
            // This host sends itself that message when nobody has answered ARP or neighbour
            // discovery. Anybody can forge the message of a router.
            (libc::SO_EE_ORIGIN_ICMP, 3, 1) | (libc::SO_EE_ORIGIN_ICMP6, 1, 3)
                if sender == Some(self.local) =>
            {
                Some(Refusal::HostUnreachable)
            }
            _ => None,
        }
    }
}

impl AsFd for PortCheck {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The IP address that the datagram was sent to.
fn ip_of(address: SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| v4.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| v6.ip().into()))
}

fn address_of(address: IpAddr, port: u16, interface_index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface_index).into()
        }
        _ => SocketAddr::new(address, port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use testkit::skip;

    /// No socket listens at these loopback addresses, except at `alive`.
    #[test]
    fn hosts_without_the_port_are_reported() {
        let [local, dead, other, alive] =
            [1, 2, 3, 4].map(|last| IpAddr::from([127, 99, 77, last]));
        let _taken = UdpSocket::bind((alive, ROCE_UDP_PORT)).expect("nobody else has it");
        let check = PortCheck::new(local, 0).expect("a socket");
        assert_eq!(check.refused(), []);
        check.ask(alive);
        check.ask(dead);
        check.ask(other);
        let mut refused = Vec::new();
        let end = Instant::now() + Duration::from_secs(60);
        while refused.len() < 2 && Instant::now() < end {
            refused.extend(check.refused());
        }
        refused.sort_unstable();
        assert_eq!(
            refused,
            [dead, other].map(|ip| (ip, Refusal::PortUnreachable))
        );
        assert_eq!(check.refused(), []);
    }

    /// The length of every header is there, so that no NIC reads beyond the packet.
    #[test]
    fn a_probe_is_a_packet_of_an_unknown_version() {
        let [local, peer] = [5, 6].map(|last| IpAddr::from([127, 99, 77, last]));
        let receiver = UdpSocket::bind((peer, ROCE_UDP_PORT)).expect("nobody else has it");
        PortCheck::new(local, 0).expect("a socket").ask(peer);
        let mut bytes = [0; 64];
        let (len, _) = receiver.recv_from(&mut bytes).expect("the probe");
        assert_eq!(len, roce_wire::Bth::LEN + roce_wire::ICRC_LEN);
        let bth = roce_wire::Bth::parse(&bytes).expect("a header");
        assert_eq!(bth.version, 0xf);
    }

    #[test]
    fn ipv6_addresses_are_probed_too() {
        let local = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
        let Ok(check) = PortCheck::new(local, 0) else {
            return skip("an address ::1 of the loopback interface", "");
        };
        if let Err(error) = UdpSocket::bind((local, ROCE_UDP_PORT)) {
            return skip("UDP port 4791 of ::1 to itself", &error.to_string());
        }
        check.ask(local);
        let end = Instant::now() + Duration::from_secs(60);
        let mut refused = check.refused();
        while refused.is_empty() && Instant::now() < end {
            refused = check.refused();
        }
        assert_eq!(refused, [(local, Refusal::PortUnreachable)]);
    }
}
