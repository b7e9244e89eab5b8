//! Addresses in C's form: `struct sockaddr_in` and `struct sockaddr_in6`.

use crate::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Lengths of `struct sockaddr_in` and `struct sockaddr_in6`, in bytes.
const LEN: [usize; 2] = [16, 28];

/// Reads an address that the program passes.
///
/// # Errors
/// `EINVAL` if the pointer is NULL, `EAFNOSUPPORT` if the address is neither IPv4 nor IPv6.
pub(crate) fn read(address: In<u8>) -> Result<SocketAddr, Errno> {
    let family = word(address.slice(2)?, 0);
    match i32::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => {
            let bytes = address.slice(LEN[0])?;
            let ip = Ipv4Addr::from(word::<4>(bytes, 4));
            Ok((ip, u16::from_be_bytes(word(bytes, 2))).into())
        }
        libc::AF_INET6 => {
            let bytes = address.slice(LEN[1])?;
            let ip = Ipv6Addr::from(word::<16>(bytes, 8));
            let port = u16::from_be_bytes(word(bytes, 2));
            let scope = u32::from_ne_bytes(word(bytes, 24));
            Ok(SocketAddrV6::new(ip, port, 0, scope).into())
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

/// `N` bytes starting at `from`, which must be in range.
fn word<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let found = bytes
        .get(from..from + N)
        .and_then(|part| part.try_into().ok());
    found.unwrap_or([0; N])
}

pub(crate) fn storage(address: SocketAddr) -> Storage {
    let mut bytes = [0; size_of::<Storage>()];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(2, &address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            put(0, &family(libc::AF_INET));
            put(4, &address.ip().octets());
        }
        SocketAddr::V6(address) => {
            put(0, &family(libc::AF_INET6));
            put(8, &address.ip().octets());
            put(24, &address.scope_id().to_ne_bytes());
        }
    }
    let mut storage = Storage::default();
    for (to, from) in storage.iter_mut().zip(bytes.chunks_exact(8)) {
        *to = u64::from_ne_bytes(word(from, 0));
    }
    storage
}

fn family(family: i32) -> [u8; 2] {
    u16::try_from(family).unwrap_or_default().to_ne_bytes()
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
