//! What the kernel shows about the path to a peer at the moment: the interface, the peer's hardware
//! address, the route, and the path's MTU. Nothing is sent.

use super::port::NO_SUCH_HOST;
use super::{Finding, Meaning};
use crate::interfaces::try_interfaces;
use nix::sys::socket::{getsockopt, sockopt};
use roce_stack::QpStatus;
use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// The path of a QP.
pub(super) struct Path<'a> {
    src: IpAddr,
    dst: IpAddr,
    path_mtu: usize,
    interface: &'a str,
}

impl<'a> Path<'a> {
    /// The path of a QP that has one, over this interface.
    pub(super) fn of(status: &QpStatus, interface: Option<&'a str>) -> Option<Self> {
        let path = status.path?;
        Some(Self {
            src: path.src,
            dst: path.dst,
            path_mtu: status.path_mtu.bytes(),
            interface: interface?,
        })
    }

    /// What is wrong with the interface or with the QP's own address.
    pub(super) fn link(&self) -> Option<Finding> {
        let name = self.interface;
        let found = try_interfaces().ok()?;
        let Some(interface) = found.iter().find(|found| found.name == name) else {
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
                "switch it on: `ip link set` with its name and `up`",
            ));
        }
        if !interface.running {
            return Some(now(
                format!("the interface {name} has no carrier"),
                "the link is down",
                "look at the cable, the switch, or the other end of a virtual link",
            ));
        }
        if !interface.addresses.contains(&self.src) && !self.src.is_loopback() {
            return Some(now(
                format!("{} is no longer an address of {name}", self.src),
                "the address of the QP's GID has been removed from the interface",
                "give the interface its address back, or connect with another GID index",
            ));
        }
        None
    }

    /// What is wrong beyond the interface.
    pub(super) fn beyond_link(&self) -> Vec<Finding> {
        [self.neighbour(), self.route()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Whether the peer, on the same network, does not answer ARP.
    fn neighbour(&self) -> Option<Finding> {
        let table = fs::read_to_string("/proc/thread-self/net/arp").ok()?;
        is_incomplete(&table, self.dst).then(|| Finding {
            fact: format!(
                "{} does not answer ARP requests on {}",
                self.dst, self.interface
            ),
            meaning: Some(NO_SUCH_HOST),
        })
    }

    /// Whether there is no route, or one that does not carry packets of the path MTU.
    fn route(&self) -> Option<Finding> {
        let mtu = match route_mtu(self.src, self.dst) {
            Ok(mtu) => mtu,
            Err(error) => {
                return Some(now(
                    format!(
                        "the kernel has no route from {} to {}: {error}",
                        self.src, self.dst
                    ),
                    "this host has no route to the peer",
                    "look at `ip route get` with the peer's address",
                ));
            }
        };
        let needed = self.path_mtu + smallest_headers(self.dst);
        (mtu < needed).then(|| {
            now(
                format!(
                    "the path to {} carries packets of at most {mtu} bytes, and a full packet of \
                     the QP has at least {needed}",
                    self.dst
                ),
                "the path does not carry packets of the QP's path MTU",
                "connect with a smaller path_mtu, or raise the MTU of the links on the way",
            )
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
fn smallest_headers(dst: IpAddr) -> usize {
    match dst {
        IpAddr::V4(_) => 20 + 8 + 12 + 4,
        IpAddr::V6(_) => 40 + 8 + 12 + 4,
    }
}

/// Whether a table of /proc/net/arp has an address without a hardware address.
fn is_incomplete(table: &str, address: IpAddr) -> bool {
    const COMPLETE: u32 = 2;
    let address = address.to_string();
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some(address.as_str()) {
            return false;
        }
        let flags = words.nth(1).and_then(|text| text.strip_prefix("0x"));
        flags
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .is_some_and(|flags| flags & COMPLETE == 0)
    })
}

/// The MTU of the route, as far as the kernel knows it: that of the interface, of the route, or one
/// that a router on the way has reported.
fn route_mtu(src: IpAddr, dst: IpAddr) -> io::Result<usize> {
    // Connecting a UDP socket only looks up the route.
    let socket = UdpSocket::bind((src, 0))?;
    socket.connect((dst, roce_udp::ROCE_UDP_PORT))?;
    let mtu = match dst {
        IpAddr::V4(_) => getsockopt(&socket, sockopt::IpMtu)?,
        IpAddr::V6(_) => ipv6_mtu(&socket)?,
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
10.9.0.3         0x1         0x2         52:54:00:12:34:56     *        v0
";

    #[test]
    fn a_host_without_a_hardware_address_does_not_answer() {
        let is_silent = |last| is_incomplete(ARP, Ipv4Addr::new(10, 9, 0, last).into());
        assert!(is_silent(2));
        assert!(!is_silent(3));
        assert!(!is_silent(4));
        assert!(!is_incomplete("10.9.0.4 0x1", [10, 9, 0, 4].into()));
    }

    #[test]
    fn the_mtu_of_the_loopback_is_known_for_both_families() {
        let v4: IpAddr = Ipv4Addr::LOCALHOST.into();
        // The most that the length in an IPv4 header can say.
        assert_eq!(route_mtu(v4, v4).expect("a route"), 65_535);
        let v6: IpAddr = Ipv6Addr::LOCALHOST.into();
        match route_mtu(v6, v6) {
            Ok(mtu) => assert_eq!(mtu, 65_536),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable),
        }
    }
}
