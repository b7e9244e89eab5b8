//! Socket addresses in the kernel's layout.

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

#[cfg(test)]
mod tests;

/// A socket address of either family, with the size and alignment that both need.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawAddress {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    /// Size of an address of either family, in bytes.
    pub(crate) const SIZE: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// All zero, which is no address.
    pub(crate) fn empty() -> Self {
        // SAFETY: every field is plain integers, for which zero is valid.
        unsafe { zeroed() }
    }

    /// The address of `ip` and `port`, with the interface that a link-local address belongs to, and
    /// the length to pass to the kernel.
    pub(crate) fn new(ip: IpAddr, port: u16, scope: u32) -> (Self, libc::socklen_t) {
        let mut raw = Self::empty();
        match ip {
            IpAddr::V4(ip) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: port.to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from(ip).to_be(),
                    },
                    sin_zero: [0; 8],
                };
                (raw, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            IpAddr::V6(ip) => {
                let scope = if is_scoped(ip) { scope } else { 0 };
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: port.to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    sin6_scope_id: scope,
                };
                (raw, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }

    /// The IP address and port, if the `length` bytes that the kernel wrote are an address.
    pub(crate) fn get(&self, length: libc::socklen_t) -> Option<(IpAddr, u16)> {
        let length = length as usize;
        // SAFETY: all bytes of the union are initialised from `empty` or `new` on,
        // and all its fields are plain integers, valid whatever their bits.
        let (family, v4, v6) = unsafe { (self.family, self.v4, self.v6) };
        match i32::from(family) {
            libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some((IpAddr::V4(ip), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some((IpAddr::V6(ip), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

/// Whether a socket address with this IP address needs an interface index.
fn is_scoped(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || ip.is_multicast()
}

/// The socket address of `ip` and `port`. `scope` is the interface index, which only link-local and
/// multicast addresses need.
pub(crate) fn socket_address(ip: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if is_scoped(v6) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, scope)),
        _ => SocketAddr::new(ip, port),
    }
}
