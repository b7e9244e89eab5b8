//! Socket names, including the addresses of a connection that another process relays.
//!
//! A relayed connection is a Unix-domain socket whose name encodes both addresses of the connection, so
//! that every process that gets the socket knows them. Any user can bind a socket to such a name and
//! pass it on, so a name is trusted only if this process's user or root created both ends.

use crate::address::{Address, from_call};
use crate::errno::{Outcome, check};
use crate::real;
use libc::{sa_family_t, sockaddr_un, socklen_t, stat, uid_t};
use roce_trust::{OwnUser, peer};
use std::ffi::{c_char, c_int};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Prefix of the name, after the zero byte of the abstract namespace.
const MARK: &[u8] = b"roce-socket";

const RANDOM: usize = 8;
const ONE: usize = 16 + 2;
const BYTES: usize = 1 + MARK.len() + RANDOM + 1 + 2 * ONE;

/// Both addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) domain: c_int,
    pub(crate) own: Address,
    pub(crate) peer: Address,
}

impl Names {
    fn bytes(&self, random: [u8; RANDOM]) -> [u8; BYTES] {
        let domain = if self.domain == libc::AF_INET6 { 6 } else { 4 };
        let parts: [&[u8]; 6] = [
            &[0],
            MARK,
            &random,
            &[domain],
            &pack(self.own),
            &pack(self.peer),
        ];
        let mut bytes = [0; BYTES];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[0])?.strip_prefix(MARK)?;
        let (domain, names) = rest.get(RANDOM..)?.split_first()?;
        let (own, peer) = names.split_at_checked(ONE)?;
        Some(Self {
            domain: if *domain == 6 {
                libc::AF_INET6
            } else {
                libc::AF_INET
            },
            own: unpack(own)?,
            peer: unpack(peer)?,
        })
    }

    /// Binds a new Unix-domain socket to a name that encodes these addresses.
    pub(crate) fn bind(&self, fd: c_int) -> Outcome<()> {
        let mut random = [0; RANDOM];
        // SAFETY: there is room for this many bytes.
        unsafe { libc::getrandom(random.as_mut_ptr().cast(), RANDOM, 0) };
        // SAFETY: zeros are valid.
        let mut raw: sockaddr_un = unsafe { std::mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as sa_family_t;
        for (to, from) in raw.sun_path.iter_mut().zip(self.bytes(random)) {
            *to = c_char::from_ne_bytes([from]);
        }
        let size = (size_of::<sa_family_t>() + BYTES) as socklen_t;
        // SAFETY: the address has this size.
        check(unsafe { real::bind(fd, (&raw const raw).cast(), size) }).map(drop)
    }
}

/// Reads the addresses of a relayed connection; `None` for any other descriptor.
pub(crate) fn read_relayed(fd: c_int) -> Option<Names> {
    // SAFETY: zeros are valid.
    let mut raw: sockaddr_un = unsafe { std::mem::zeroed() };
    let mut size = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: there is room for this size.
    let result = unsafe { real::getsockname(fd, (&raw mut raw).cast(), &raw mut size) };
    if result < 0 || c_int::from(raw.sun_family) != libc::AF_UNIX {
        return None;
    }
    let length = (size as usize).checked_sub(size_of::<sa_family_t>())?;
    let path = raw.sun_path.get(..length)?;
    let bytes: Vec<u8> = path.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    Names::parse(&bytes).filter(|_| is_trusted(fd))
}

/// Whether this process's user or root created both ends of a Unix-domain socket.
fn is_trusted(fd: c_int) -> bool {
    let own = OwnUser::now();
    // SAFETY: `read_relayed` has just used the descriptor, so it is open.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    creator(fd).is_some_and(|user| own.is_or_root(user))
        && peer(&socket).is_ok_and(|peer| own.is_or_root(peer.user))
}

/// The user that created the socket.
fn creator(fd: c_int) -> Option<uid_t> {
    // SAFETY: zeros are valid.
    let mut found: stat = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    check(unsafe { libc::fstat(fd, &raw mut found) }).ok()?;
    Some(found.st_uid)
}

/// The local address of a kernel socket.
pub(crate) fn local_address(fd: c_int) -> Outcome<Option<Address>> {
    from_call(|to, size| {
        // SAFETY: there is room for this size.
        check(unsafe { real::getsockname(fd, to, size) }).map(drop)
    })
}

/// The peer address of a kernel socket.
pub(crate) fn peer_address(fd: c_int) -> Outcome<Option<Address>> {
    from_call(|to, size| {
        // SAFETY: there is room for this size.
        check(unsafe { real::getpeername(fd, to, size) }).map(drop)
    })
}

fn pack(address: Address) -> [u8; ONE] {
    let ip = match address.0.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ONE];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.0.port().to_be_bytes());
    bytes
}

fn unpack(bytes: &[u8]) -> Option<Address> {
    let (ip, port) = bytes.split_at_checked(16)?;
    let ip = Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?);
    let port = u16::from_be_bytes(port.try_into().ok()?);
    Some(Address(SocketAddr::new(ip.to_canonical(), port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hidden, link};

    fn address(text: &str) -> Address {
        Address(text.parse().expect("an address"))
    }

    #[test]
    fn a_socket_keeps_its_names() {
        let [a, b] = link::pair(libc::SOCK_STREAM).expect("a pair");
        let names = Names {
            domain: libc::AF_INET6,
            own: address("10.0.0.1:80"),
            peer: address("[2001:db8::2]:40000"),
        };
        names.bind(a).expect("a name");
        assert_eq!(read_relayed(a), Some(names));
        assert_eq!(read_relayed(b), None);
        hidden::close(a);
        hidden::close(b);
    }
}
