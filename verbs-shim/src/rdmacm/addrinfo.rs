//! `rdma_getaddrinfo`: names to addresses, by the resolver of the C library.

use super::sockaddr;
use crate::abi::{PS_IB, PS_TCP, PS_UDP, QPT_RC, QPT_UD, RdmaAddrinfo, Storage, rai};
use crate::convert::int;
use crate::guard;
use crate::pointer::{In, Out, Text};
use nix::errno::Errno;
use std::ffi::{CString, c_int};
use std::net::SocketAddr;

/// What a program gets, and what its pointers point to.
#[repr(C)]
struct Info {
    c: RdmaAddrinfo,
    src: Storage,
    dst: Storage,
    name: CString,
}

/// What the C library made of a name.
struct Found {
    address: SocketAddr,
    name: CString,
}

/// `rdma_getaddrinfo`. Returns what `getaddrinfo` returns if that has failed: the numbers of
/// `gai_strerror`.
pub(crate) extern "C" fn getaddrinfo(
    node: Text,
    service: Text,
    hints: In<RdmaAddrinfo>,
    result: Out<*mut RdmaAddrinfo>,
) -> c_int {
    let mut failed = 0;
    let told = guard::minus_one(|| {
        let hints = if hints.is_null() {
            None
        } else {
            Some(hints.get()?)
        };
        if node.is_null() && service.is_null() && hints.is_none() {
            return Err(Errno::EINVAL);
        }
        let wanted = hints.copied().unwrap_or_else(RdmaAddrinfo::unset);
        let found = if node.is_null() && service.is_null() {
            None
        } else {
            match resolve(node, service, &wanted) {
                Ok(found) => Some(found),
                Err(code) => {
                    failed = code;
                    return Err(Errno::EINVAL);
                }
            }
        };
        result.put(Box::into_raw(Info::new(&wanted, found)?).cast())
    });
    if failed == 0 { told } else { failed }
}

/// Asks the C library.
fn resolve(node: Text, service: Text, wanted: &RdmaAddrinfo) -> Result<Found, c_int> {
    // SAFETY: plain numbers and pointers, which may all be zero.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    let flag = |ours: i32, theirs: i32| {
        if wanted.ai_flags & ours != 0 {
            theirs
        } else {
            0
        }
    };
    hints.ai_flags =
        flag(rai::PASSIVE, libc::AI_PASSIVE) | flag(rai::NUMERICHOST, libc::AI_NUMERICHOST);
    if wanted.ai_flags & rai::FAMILY != 0 {
        hints.ai_family = wanted.ai_family;
    }
    hints.ai_socktype = match wanted.ai_port_space.cast_unsigned() {
        PS_UDP => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    let mut list = std::ptr::null_mut();
    // SAFETY: the texts are the program's, or NULL; the list is freed below.
    let failed = unsafe { libc::getaddrinfo(node, service, &raw const hints, &raw mut list) };
    if failed != 0 {
        return Err(failed);
    }
    // SAFETY: it has at least one entry.
    let first = unsafe { (*list).ai_addr };
    let address = sockaddr::read(In::at(first as u64));
    // SAFETY: it is from `getaddrinfo`, and nothing of it is used any more.
    unsafe { libc::freeaddrinfo(list) };
    let address = address.map_err(|_| libc::EAI_FAMILY)?;
    let name = if node.is_null() {
        CString::default()
    } else {
        // SAFETY: a text of the program.
        unsafe { std::ffi::CStr::from_ptr(node) }.to_owned()
    };
    Ok(Found { address, name })
}

impl Info {
    /// What was found is the source for who listens, else the destination; hints say the
    /// other one.
    fn new(hints: &RdmaAddrinfo, found: Option<Found>) -> Result<Box<Self>, Errno> {
        let mut src = sockaddr::read_if_given(given(hints.ai_src_addr, hints.ai_src_len))?;
        let mut dst = sockaddr::read_if_given(given(hints.ai_dst_addr, hints.ai_dst_len))?;
        let is_passive = hints.ai_flags & rai::PASSIVE != 0;
        let mut name = CString::default();
        if let Some(found) = found {
            *(if is_passive { &mut src } else { &mut dst }) = Some(found.address);
            name = found.name;
        }
        let family = dst.or(src).map(|address| match address {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        });
        let (space, kind) = kinds(hints);
        let mut info = Box::new(Self {
            c: RdmaAddrinfo {
                ai_flags: hints.ai_flags,
                ai_family: family.unwrap_or(hints.ai_family),
                ai_qp_type: kind,
                ai_port_space: space,
                ai_src_len: src.map_or(0, sockaddr::len),
                ai_dst_len: dst.map_or(0, sockaddr::len),
                ..RdmaAddrinfo::unset()
            },
            src: src.map_or_else(Storage::default, sockaddr::storage),
            dst: dst.map_or_else(Storage::default, sockaddr::storage),
            name,
        });
        let at = |there: bool, address: &Storage| {
            In::at(if there { address.as_ptr() as u64 } else { 0 })
        };
        info.c.ai_src_addr = at(src.is_some(), &info.src);
        info.c.ai_dst_addr = at(dst.is_some(), &info.dst);
        if !info.name.is_empty() {
            let name = info.name.as_ptr();
            if is_passive {
                info.c.ai_src_canonname = name;
            } else {
                info.c.ai_dst_canonname = name;
            }
        }
        Ok(info)
    }
}

/// An address, if its length is not 0.
fn given(address: In<u8>, len: u32) -> In<u8> {
    if len == 0 { In::at(0) } else { address }
}

/// Port space and type of QP: each follows from the other, if it is not said.
fn kinds(hints: &RdmaAddrinfo) -> (c_int, c_int) {
    let [tcp, udp, ib] = [PS_TCP, PS_UDP, PS_IB].map(int);
    let [connected, datagram] = [QPT_RC, QPT_UD].map(int);
    match (hints.ai_port_space, hints.ai_qp_type) {
        (0, kind) if kind == datagram => (udp, datagram),
        (0, 0) => (tcp, connected),
        (0, kind) => (tcp, kind),
        (space, 0) if space == udp => (udp, datagram),
        (space, 0) if space == tcp || space == ib => (space, connected),
        said => said,
    }
}

/// `rdma_freeaddrinfo`.
pub(crate) extern "C" fn freeaddrinfo(info: *mut RdmaAddrinfo) {
    if !info.is_null() {
        // SAFETY: C has it from `getaddrinfo`, which made it of a box, of which it is the
        // first field, and frees it once.
        drop(unsafe { Box::from_raw(info.cast::<Info>()) });
    }
}
