//! A datagram socket's kernel UDP socket.

use crate::nic::canonical;
use crate::socket::Domain;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrStorage, bind, connect, getsockname, recvmsg, sendmsg, setsockopt, socket,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A UDP socket that reports the destination address of messages.
pub(super) struct Udp {
    socket: OwnedFd,
    domain: Domain,
}

/// A received message.
pub(super) struct Message {
    /// The sender.
    pub(super) from: SocketAddr,
    /// Its destination address, or another address of the interface for multicast; `None` if the kernel
    /// does not report one.
    pub(super) to: Option<IpAddr>,
    /// Its length, or `None` if it did not fit.
    pub(super) len: Option<usize>,
}

impl Udp {
    pub(super) fn new(domain: Domain) -> Result<Self, Errno> {
        let family = match domain {
            Domain::V4 => AddressFamily::Inet,
            Domain::V6 => AddressFamily::Inet6,
        };
        let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        match domain {
            Domain::V4 => setsockopt(&socket, Ipv4PacketInfo, &true)?,
            Domain::V6 => setsockopt(&socket, Ipv6RecvPacketInfo, &true)?,
        }
        Ok(Self { socket, domain })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn borrow(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        bind(self.fd(), &self.storage(address))
    }

    pub(super) fn connect(&self, remote: SocketAddr) -> Result<(), Errno> {
        connect(self.fd(), &self.storage(remote))
    }

    /// Disconnects the socket.
    pub(super) fn disconnect(&self) -> Result<(), Errno> {
        let nowhere = libc::sockaddr {
            sa_family: libc::AF_UNSPEC as libc::sa_family_t,
            sa_data: [0; 14],
        };
        let len = size_of_val(&nowhere) as libc::socklen_t;
        // SAFETY: the address has this length and outlives the call.
        Errno::result(unsafe { libc::connect(self.fd(), &raw const nowhere, len) }).map(drop)
    }

    /// The local address.
    pub(super) fn local(&self) -> Result<SocketAddr, Errno> {
        let local = getsockname::<SockaddrStorage>(self.fd())?;
        Ok(address(&local).unwrap_or((self.domain.unspecified(), 0).into()))
    }

    /// Sends a message from a local address. Returns the number of bytes.
    pub(super) fn send(
        &self,
        slices: &[IoSlice<'_>],
        from: IpAddr,
        to: SocketAddr,
        dont_wait: bool,
    ) -> Result<usize, Errno> {
        let to = self.storage(to);
        let mut flags = MsgFlags::MSG_NOSIGNAL;
        flags.set(MsgFlags::MSG_DONTWAIT, dont_wait);
        match (self.domain, from) {
            (Domain::V4, IpAddr::V4(from)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr(from),
                    ipi_addr: in_addr(Ipv4Addr::UNSPECIFIED),
                };
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                sendmsg(self.fd(), slices, &control, flags, Some(&to))
            }
            (_, from) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: map_to_v6(from).octets(),
                    },
                    ipi6_ifindex: 0,
                };
                let control = [ControlMessage::Ipv6PacketInfo(&info)];
                sendmsg(self.fd(), slices, &control, flags, Some(&to))
            }
        }
    }

    /// Receives the next message.
    ///
    /// # Errors
    /// EAGAIN if there is none, and errors that the network has reported.
    pub(super) fn receive(&self, into: &mut [u8]) -> Result<Message, Errno> {
        let mut slices = [IoSliceMut::new(into)];
        let mut control = nix::cmsg_space!(libc::in_pktinfo, libc::in6_pktinfo);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received =
            recvmsg::<SockaddrStorage>(self.fd(), &mut slices, Some(&mut control), flags)?;
        let to = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                let ip = Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
                Some(IpAddr::from(ip))
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical())
            }
            _ => None,
        });
        let is_whole = !received.flags.contains(MsgFlags::MSG_TRUNC);
        let from = received.address.as_ref().and_then(address);
        Ok(Message {
            from: normalize(from.ok_or(Errno::EAFNOSUPPORT)?),
            to,
            len: is_whole.then_some(received.bytes),
        })
    }

    /// Converts an address to the socket's family.
    fn storage(&self, address: SocketAddr) -> SockaddrStorage {
        self.domain.map_address(address).into()
    }
}

/// Normalizes a peer's address for comparison.
pub(super) fn normalize(address: SocketAddr) -> SocketAddr {
    match canonical(address) {
        SocketAddr::V6(mut v6) => {
            v6.set_flowinfo(0);
            if !v6.ip().is_unicast_link_local() {
                v6.set_scope_id(0);
            }
            v6.into()
        }
        v4 @ SocketAddr::V4(_) => v4,
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    storage
        .as_sockaddr_in6()
        .map(|v6| SocketAddrV6::from(*v6).into())
}

fn map_to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

fn in_addr(ip: Ipv4Addr) -> libc::in_addr {
    libc::in_addr {
        s_addr: u32::from_ne_bytes(ip.octets()),
    }
}
