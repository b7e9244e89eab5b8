//! Making, connecting and closing sockets, and their addresses.

use super::OrErrno;
use crate::prelude::*;
use crate::rdmacm::sockaddr;
use roce_rsockets as rs;
use std::net::SocketAddr;

/// The bits of a socket's type that are flags.
const TYPE_FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

pub(crate) extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    guard::value("rsocket", -1, || {
        let domain = match domain {
            libc::AF_INET => rs::Domain::V4,
            libc::AF_INET6 => rs::Domain::V6,
            other => {
                return Err(with_reason(Errno::EAFNOSUPPORT, || {
                    format!("domain {other}, but rsockets are of AF_INET or AF_INET6")
                }));
            }
        };
        let fd = match (kind & !TYPE_FLAGS, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => rs::socket(domain).or_errno()?,
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => rs::datagram_socket(domain).or_errno()?,
            _ => {
                return Err(with_reason(Errno::EPROTONOSUPPORT, || {
                    format!("type {kind} with protocol {protocol} is no rsocket")
                }));
            }
        };
        if kind & libc::SOCK_NONBLOCK != 0 {
            rs::set_nonblocking(fd, true).or_errno()?;
        }
        Ok(fd)
    })
}

pub(crate) extern "C" fn bind(fd: c_int, address: In<u8>, len: u32) -> c_int {
    guard::minus_one("rbind", || rs::bind(fd, read(address, len)?).or_errno())
}

pub(crate) extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    guard::minus_one("rlisten", || rs::listen(fd, backlog).or_errno())
}

pub(crate) extern "C" fn accept(fd: c_int, address: Out<u8>, len: Out<u32>) -> c_int {
    guard::value("raccept", -1, || {
        if !address.is_null() {
            len.get()?;
        }
        let (new, peer) = rs::accept(fd).or_errno()?;
        if !address.is_null() {
            write(peer, address, len)?;
        }
        Ok(new)
    })
}

pub(crate) extern "C" fn connect(fd: c_int, address: In<u8>, len: u32) -> c_int {
    guard::minus_one("rconnect", || {
        if rs::is_datagram(fd) && family(address, len)? == libc::AF_UNSPEC {
            return rs::disconnect(fd).or_errno();
        }
        rs::connect(fd, read(address, len)?).or_errno()
    })
}

pub(crate) extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    guard::minus_one("rshutdown", || {
        let which = match how {
            libc::SHUT_RD => rs::Shutdown::Reads,
            libc::SHUT_WR => rs::Shutdown::Writes,
            libc::SHUT_RDWR => rs::Shutdown::Both,
            _ => return Err(Errno::EINVAL),
        };
        rs::shutdown(fd, which).or_errno()
    })
}

pub(crate) extern "C" fn close(fd: c_int) -> c_int {
    guard::minus_one("rclose", || rs::close(fd).or_errno())
}

pub(crate) extern "C" fn local_name(fd: c_int, address: Out<u8>, len: Out<u32>) -> c_int {
    guard::minus_one("rgetsockname", || {
        write(rs::local_name(fd).or_errno()?, address, len)
    })
}

pub(crate) extern "C" fn peer_name(fd: c_int, address: Out<u8>, len: Out<u32>) -> c_int {
    guard::minus_one("rgetpeername", || {
        write(rs::peer_name(fd).or_errno()?, address, len)
    })
}

/// The length of the family of an address, in bytes.
const FAMILY: u32 = 2;

/// The family of an address that the program passes, of `len` bytes.
fn family(address: In<u8>, len: u32) -> Result<c_int, Errno> {
    if len < FAMILY {
        return Err(Errno::EINVAL);
    }
    let bytes = address.slice(FAMILY as usize)?;
    Ok(u16::from_ne_bytes([bytes[0], bytes[1]]).into())
}

/// An address that the program passes, of `len` bytes.
pub(super) fn read(address: In<u8>, len: u32) -> Result<SocketAddr, Errno> {
    let family = family(address, len)?;
    let needed = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => FAMILY as usize,
    };
    if (len as usize) < needed {
        return Err(with_reason(Errno::EINVAL, || {
            format!("an address of {len} bytes, but one of family {family} has {needed}")
        }));
    }
    sockaddr::read(address)
}

/// Writes an address as far as there is room, and its whole length.
pub(super) fn write(from: SocketAddr, address: Out<u8>, len: Out<u32>) -> Result<(), Errno> {
    let room = *len.get()? as usize;
    let storage = sockaddr::storage(from);
    let bytes: Vec<u8> = storage.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let whole = sockaddr::len(from);
    let copied = room.min(whole as usize);
    if copied > 0 {
        address.slice(copied)?.copy_from_slice(&bytes[..copied]);
    }
    len.put(whole)
}
