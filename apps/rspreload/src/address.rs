//! IPv4 and IPv6 addresses with a port, as the socket functions pass them.

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use std::ffi::c_int;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address of an IP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl Address {
    /// Reads an address that a program or the kernel passed; `None` if it is not IPv4 or IPv6.
    ///
    /// # Safety
    /// `size` bytes can be read from `from`, unless it is NULL.
    pub(crate) unsafe fn read(from: *const sockaddr, size: socklen_t) -> Option<Self> {
        let size = size as usize;
        if from.is_null() || size < size_of::<sa_family_t>() {
            return None;
        }
        // SAFETY: the caller promises that the family can be read.
        let family = c_int::from(unsafe { from.cast::<sa_family_t>().read_unaligned() });
        if family == libc::AF_INET && size >= size_of::<sockaddr_in>() {
            // SAFETY: the caller promises this many bytes.
            let v4 = unsafe { from.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            return Some(Self(
                SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into(),
            ));
        }
        // The kernel also accepts addresses without a scope.
        if family == libc::AF_INET6 && size >= size_of::<sockaddr_in6>() - size_of::<u32>() {
            let mut v6 = std::mem::MaybeUninit::<sockaddr_in6>::zeroed();
            let size = size.min(size_of::<sockaddr_in6>());
            // SAFETY: the caller promises this many bytes, and there is room for them. Any bytes are a
            // valid address.
            let v6 = unsafe {
                std::ptr::copy_nonoverlapping(from.cast::<u8>(), v6.as_mut_ptr().cast(), size);
                v6.assume_init()
            };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            return Some(Self(
                SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
            ));
        }
        None
    }

    /// The C structure, and its size.
    pub(crate) fn raw(self) -> (sockaddr_storage, socklen_t) {
        // SAFETY: zeros are valid.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        let size = match self.0 {
            SocketAddr::V4(v4) => {
                // SAFETY: zeros are valid.
                let mut raw: sockaddr_in = unsafe { std::mem::zeroed() };
                raw.sin_family = libc::AF_INET as sa_family_t;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                // SAFETY: the storage has room and alignment for each address.
                unsafe { (&raw mut storage).cast::<sockaddr_in>().write(raw) };
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: zeros are valid.
                let mut raw: sockaddr_in6 = unsafe { std::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as sa_family_t;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_flowinfo = v6.flowinfo();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<sockaddr_in6>().write(raw) };
                size_of::<sockaddr_in6>()
            }
        };
        (storage, size as socklen_t)
    }

    /// Writes the address to the program's buffer, truncated to fit, and sets `size` to the full size.
    ///
    /// # Safety
    /// `size` points to the number of bytes that can be written to `to`, unless one of them is NULL.
    pub(crate) unsafe fn write(self, to: *mut sockaddr, size: *mut socklen_t) {
        if to.is_null() || size.is_null() {
            return;
        }
        let (raw, length) = self.raw();
        // SAFETY: the caller promises both.
        unsafe {
            let room = (*size).min(length) as usize;
            std::ptr::copy_nonoverlapping((&raw const raw).cast::<u8>(), to.cast(), room);
            *size = length;
        }
    }

    pub(crate) fn domain(self) -> c_int {
        match self.0 {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        }
    }

    /// Converts an IPv4-mapped IPv6 address to IPv4.
    pub(crate) fn unmapped(self) -> Self {
        match self.0.ip().to_canonical() {
            IpAddr::V4(ip) if self.0.is_ipv6() => Self(SocketAddr::new(ip.into(), self.0.port())),
            _ => self,
        }
    }

    /// The address as a socket of `domain` reports it: an `AF_INET6` socket maps IPv4 addresses.
    pub(crate) fn in_domain(self, domain: c_int) -> Self {
        match self.0 {
            SocketAddr::V4(v4) if domain == libc::AF_INET6 => {
                Self(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            _ => self,
        }
    }

    pub(crate) fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }

    /// Whether both the IP address and the port are unspecified.
    pub(crate) fn is_unset(self) -> bool {
        self.0.ip().is_unspecified() && self.0.port() == 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unmapped().0.fmt(f)
    }
}

/// Calls a function that writes an address, such as `getsockname`.
pub(crate) fn from_call<E>(
    call: impl FnOnce(*mut sockaddr, *mut socklen_t) -> Result<(), E>,
) -> Result<Option<Address>, E> {
    // SAFETY: zeros are valid.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut size = size_of::<sockaddr_storage>() as socklen_t;
    let to = (&raw mut storage).cast();
    call(to, &raw mut size)?;
    let size = size.min(size_of::<sockaddr_storage>() as socklen_t);
    // SAFETY: the storage has this many bytes.
    Ok(unsafe { Address::read(to, size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address(text.parse().expect("an address"))
    }

    #[test]
    fn written_addresses_are_read_back() {
        for text in ["10.0.0.1:80", "[2001:db8::1]:443", "[fe80::1%3]:7"] {
            let (raw, size) = address(text).raw();
            // SAFETY: the storage has this size.
            let read = unsafe { Address::read((&raw const raw).cast(), size) };
            assert_eq!(read, Some(address(text)));
        }
    }

    #[test]
    fn a_short_buffer_gets_the_beginning() {
        let mut to = [0xee_u8; 16];
        let mut size = 4;
        // SAFETY: there is room for four bytes.
        unsafe { address("10.0.0.1:80").write(to.as_mut_ptr().cast(), &raw mut size) };
        assert_eq!(size, 16);
        assert_eq!(to[2..5], [0, 80, 0xee]);
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let mapped = address("[::ffff:10.0.0.1]:80");
        assert_eq!(mapped.unmapped(), address("10.0.0.1:80"));
        assert_eq!(mapped.unmapped().in_domain(libc::AF_INET6), mapped);
        assert_eq!(mapped.to_string(), "10.0.0.1:80");
        assert!(address("[::ffff:127.0.0.1]:80").is_loopback());
    }
}
