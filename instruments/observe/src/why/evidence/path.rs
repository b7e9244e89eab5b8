//! The kernel's present view of the path to a peer: the interface, the peer's hardware
//! address, the route, and the path's MTU. Nothing is sent.

use super::kernel::{KernelView, TOO_BIG};
use super::port::{FORBIDDEN, NO_ROUTE, NO_SUCH_HOST};
use super::{Finding, Meaning};
use nix::sys::socket::{getsockopt, sockopt};
use roce_stack::{Failure, QpStatus, RoceVersion};
use roce_trust::Interface;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// The length of a management datagram in bytes.
const MAD: usize = 256;

/// The path of a QP, or of management datagrams.
pub(super) struct Path<'a> {
    src: IpAddr,
    dst: IpAddr,
    path_mtu: usize,
    /// The largest payload of the packets of the request that failed, in bytes.
    payload: usize,
    view: &'a KernelView<'a>,
}

impl<'a> Path<'a> {
    /// The path of a QP that has one. The kernel routes no RoCE v1.
    pub(super) fn of(
        status: &QpStatus,
        failure: &Failure,
        view: &'a KernelView<'a>,
    ) -> Option<Self> {
        let path = status
            .path
            .filter(|path| matches!(path.version, RoceVersion::V2))?;
        let path_mtu = status.path_mtu.bytes();
        let message = failure.request.map_or(0, |request| {
            usize::try_from(request.len).unwrap_or(path_mtu)
        });
        Some(Self {
            src: path.src,
            dst: path.dst,
            path_mtu,
            payload: message.min(path_mtu),
            view,
        })
    }

    /// The path of management datagrams, which are short.
    pub(super) fn of_datagrams(src: IpAddr, dst: IpAddr, view: &'a KernelView<'a>) -> Self {
        Self {
            src,
            dst,
            path_mtu: MAD,
            payload: MAD,
            view,
        }
    }

    fn state(&self) -> Option<&Interface> {
        let name = self.view.interface();
        self.view.interfaces.iter().find(|found| found.name == name)
    }

    /// The faults of the interface or of the QP's own address.
    pub(super) fn link(&self) -> Option<Finding> {
        let name = self.view.interface();
        let all = &self.view.interfaces;
        if all.is_empty() {
            return None;
        }
        let Some(interface) = self.state() else {
            return Some(now(
                format!("the interface {name} is gone"),
                "the interface has been removed",
                "open the device again when the interface is back",
            ));
        };
        if !interface.up {
            return Some(now(
                format!("the interface {name} is down"),
                "the interface is down",
                "switch it on with `ip link set INTERFACE up`",
            ));
        }
        if !interface.running {
            return Some(now(
                format!("the interface {name} has no carrier"),
                "the link is down",
                "look at the cable, the switch, or the other end of a virtual link",
            ));
        }
        let mut addresses = all.iter().flat_map(|found| &found.addresses);
        if !self.src.is_loopback() && !addresses.any(|address| *address == self.src) {
            return Some(now(
                format!("{} is no longer an address of this host", self.src),
                "the address of the QP's GID has been removed from the interface",
                "give the interface its address back, or connect with another GID index",
            ));
        }
        None
    }

    /// The faults beyond the interface.
    pub(super) fn beyond_link(&self) -> Vec<Finding> {
        [self.neighbour(), self.route()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether the peer, on the same network, does not answer ARP.
    fn neighbour(&self) -> Option<Finding> {
        let interface = self.view.interface();
        is_incomplete(&self.view.neighbours, self.dst, interface).then(|| Finding {
            fact: format!("{} does not answer ARP requests on {interface}", self.dst),
            meaning: Some(NO_SUCH_HOST),
        })
    }

    /// Whether there is no route, or one that does not carry packets of the path MTU.
    fn route(&self) -> Option<Finding> {
        let index = self.state().map_or(0, |interface| interface.index);
        let socket = UdpSocket::bind(at(self.src, 0, index)).ok()?;
        // Connecting a UDP socket only looks up the route.
        let connected = socket.connect(at(self.dst, roce_wire::UDP_PORT, index));
        let mtu = match connected {
            Ok(()) => route_mtu(&socket, self.dst).ok()?,
            Err(error) => {
                let meaning = match error.kind() {
                    io::ErrorKind::PermissionDenied => FORBIDDEN,
                    _ => NO_ROUTE,
                };
                return Some(Finding {
                    fact: format!(
                        "the kernel has no route from {} to {}: {error}",
                        self.src, self.dst
                    ),
                    meaning: Some(meaning),
                });
            }
        };
        let headers = smallest_headers(self.dst);
        let needed = self.path_mtu + headers;
        // Short messages get through.
        let is_lost = self.payload + headers > mtu;
        (mtu < needed).then(|| Finding {
            fact: format!(
                "as far as the kernel knows, the path to {} carries packets of at most {mtu} bytes; \
                 a full packet of the QP has at least {needed}",
                self.dst
            ),
            meaning: is_lost.then_some(TOO_BIG),
        })
    }
}

fn now(fact: String, likely: &'static str, advice: &'static str) -> Finding {
    Finding {
        fact,
        meaning: Some(Meaning { likely, advice }),
    }
}

/// The headers of the shortest packet around a full payload: IP, UDP, BTH, and the ICRC.
pub(super) fn smallest_headers(dst: IpAddr) -> usize {
    match dst {
        IpAddr::V4(_) => 20 + 8 + 12 + 4,
        IpAddr::V6(_) => 40 + 8 + 12 + 4,
    }
}

/// Whether a table of /proc/net/arp has an address without a hardware address on an interface.
fn is_incomplete(table: &str, address: IpAddr, interface: &str) -> bool {
    const COMPLETE: u32 = 2;
    let address = address.to_string();
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some(address.as_str()) {
            return false;
        }
        let flags = words.nth(1).and_then(|text| text.strip_prefix("0x"));
        if words.next_back() != Some(interface) {
            return false;
        }
        flags
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .is_some_and(|flags| flags & COMPLETE == 0)
    })
}

/// A socket's address. A link-local address is one of an interface.
fn at(address: IpAddr, port: u16, index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, index).into()
        }
        _ => SocketAddr::new(address, port),
    }
}

/// The MTU of the route of a connected socket, as far as the kernel knows it: that of the interface,
/// of the route, or one that a router on the way has reported.
fn route_mtu(socket: &UdpSocket, dst: IpAddr) -> io::Result<usize> {
    let mtu = match dst {
        IpAddr::V4(_) => getsockopt(socket, sockopt::IpMtu)?,
        IpAddr::V6(_) => ipv6_mtu(socket)?,
    };
    usize::try_from(mtu).map_err(io::Error::other)
}

/// `IPV6_MTU`, which `nix` does not have.
fn ipv6_mtu(socket: &UdpSocket) -> io::Result<libc::c_int> {
    let mut mtu: libc::c_int = 0;
    // The size of an integer.
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes, those of `mtu`.
    #[expect(unsafe_code)]
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU,
            (&raw mut mtu).cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const ARP: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.9.0.2         0x1         0x0         00:00:00:00:00:00     *        v0
10.9.0.3         0x1         0x0         00:00:00:00:00:00     *        v1
10.9.0.3         0x1         0x2         52:54:00:12:34:56     *        v0
";

    #[test]
    fn a_host_without_a_hardware_address_does_not_answer() {
        let is_silent = |last| is_incomplete(ARP, Ipv4Addr::new(10, 9, 0, last).into(), "v0");
        assert!(is_silent(2));
        assert!(!is_silent(3));
        assert!(!is_silent(4));
        let cut_off = is_incomplete("10.9.0.4 0x1", [10, 9, 0, 4].into(), "v0");
        assert!(!cut_off);
    }

    #[test]
    fn the_mtu_of_the_loopback_is_known_for_both_families() {
        let mtu = |address: IpAddr| {
            let socket = UdpSocket::bind((address, 0)).ok()?;
            socket.connect((address, 9)).expect("a route");
            Some(route_mtu(&socket, address).expect("an MTU"))
        };
        // The most that the length in an IPv4 header can say.
        assert_eq!(mtu(Ipv4Addr::LOCALHOST.into()), Some(65_535));
        // There may be no IPv6.
        let v6 = mtu(Ipv6Addr::LOCALHOST.into());
        assert!(v6.is_none_or(|mtu| mtu == 65_536), "{v6:?}");
    }

    /// Without the index, the kernel would refuse a link-local address as it does one without a route.
    #[test]
    fn a_link_local_address_has_its_interface() {
        let address: IpAddr = "fe80::1".parse().expect("an address");
        assert_eq!(at(address, 1, 7).to_string(), "[fe80::1%7]:1");
        assert_eq!(at([10, 0, 0, 1].into(), 1, 7).to_string(), "10.0.0.1:1");
    }
}
