//! Addresses in C's form: `struct sockaddr_in` and `struct sockaddr_in6`.

use crate::prelude::*;
use libc::{sa_family_t, sockaddr_in, sockaddr_in6};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Reads an address that the program passes.
///
/// # Errors
/// `EINVAL` if the pointer is NULL, `EAFNOSUPPORT` if the address is neither IPv4 nor IPv6.
pub(crate) fn read(address: In<u8>) -> Result<SocketAddr, Errno> {
    let at = address.as_ptr() as u64;
    match In::<sa_family_t>::at(at).read()?.into() {
        libc::AF_INET => {
            let found = In::<sockaddr_in>::at(at).read()?;
            let ip = Ipv4Addr::from(found.sin_addr.s_addr.to_ne_bytes());
            Ok((ip, u16::from_be(found.sin_port)).into())
        }
        libc::AF_INET6 => {
            let found = In::<sockaddr_in6>::at(at).read()?;
            let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
            let port = u16::from_be(found.sin6_port);
            Ok(SocketAddrV6::new(ip, port, 0, found.sin6_scope_id).into())
        }
        family => Err(with_reason(Errno::EAFNOSUPPORT, || {
            format!("the address is of family {family}, but must be of AF_INET or AF_INET6")
        })),
    }
}

/// As [`read`]; `None` if the pointer is NULL.
pub(super) fn read_if_given(address: In<u8>) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() {
        return Ok(None);
    }
    read(address).map(Some)
}

pub(crate) fn storage(address: SocketAddr) -> Storage {
    let mut storage = Storage::default();
    let to = storage.as_mut_ptr();
    // Neither fails: the pointer is not NULL.
    let _ = match address {
        SocketAddr::V4(address) => Out::allocated(to.cast()).put(sockaddr_in {
            sin_family: libc::AF_INET as sa_family_t,
            sin_port: address.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(address.ip().octets()),
            },
            sin_zero: [0; 8],
        }),
        SocketAddr::V6(address) => Out::allocated(to.cast()).put(sockaddr_in6 {
            sin6_family: libc::AF_INET6 as sa_family_t,
            sin6_port: address.port().to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr {
                s6_addr: address.ip().octets(),
            },
            sin6_scope_id: address.scope_id(),
        }),
    };
    storage
}

/// The length of the C structure of an address, in bytes.
pub(crate) fn len(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 16 } else { 28 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["10.1.2.3:7471", "[fe80::1%3]:9", "[2001:db8::7]:0"] {
            let address: SocketAddr = text.parse().expect("an address");
            let there = storage(address);
            assert_eq!(read(In::at(there.as_ptr() as u64)), Ok(address));
        }
    }

    #[test]
    fn other_families_are_refused() {
        let mut there = Storage::default();
        assert_eq!(read(In::at(0)), Err(Errno::EINVAL));
        assert_eq!(read_if_given(In::at(0)), Ok(None));
        for family in [0_u64, 1, 27, 0xffff] {
            there[0] = family.to_le();
            assert_eq!(
                read(In::at(there.as_ptr() as u64)),
                Err(Errno::EAFNOSUPPORT)
            );
        }
    }
}
