//! `rdma_getaddrinfo`: resolves names with the C library's resolver.

use super::sockaddr;
use crate::prelude::*;
use std::ffi::{CStr, CString};
use std::net::SocketAddr;

/// The result of the C library's resolver.
struct Found {
    address: SocketAddr,
    name: CString,
}

/// `rdma_getaddrinfo`. If `getaddrinfo` fails, returns its error code (`EAI_*`). If anything else
/// fails, returns -1 and sets `errno`.
pub(crate) extern "C" fn getaddrinfo(
    node: Text,
    service: Text,
    hints: In<RdmaAddrinfo>,
    result: Out<*mut RdmaAddrinfo>,
) -> c_int {
    let mut failed = 0;
    let code = guard::minus_one("rdma_getaddrinfo", || {
        let names_nothing = node.is_null() && service.is_null();
        let wanted = match hints.read() {
            Err(errno) if names_nothing => return Err(errno),
            hints => hints.unwrap_or_else(|_| RdmaAddrinfo::zeroed()),
        };
        let found = (!names_nothing).then(|| resolve(node, service, &wanted));
        let found = found.transpose().map_err(|code| {
            failed = code;
            Errno::EINVAL
        })?;
        let info = answer(&wanted, found)?;
        result.put(info).inspect_err(|_| freeaddrinfo(info))
    });
    if failed == 0 { code } else { failed }
}

/// Calls the C library's resolver.
fn resolve(node: Text, service: Text, wanted: &RdmaAddrinfo) -> Result<Found, c_int> {
    // SAFETY: plain numbers and pointers, which may all be zero.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    for (ours, theirs) in [
        (rai::PASSIVE, libc::AI_PASSIVE),
        (rai::NUMERICHOST, libc::AI_NUMERICHOST),
    ] {
        if wanted.ai_flags & ours != 0 {
            hints.ai_flags |= theirs;
        }
    }
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
    // SAFETY: `getaddrinfo` allocated the list, and nothing refers to it any more.
    unsafe { libc::freeaddrinfo(list) };
    let address = address.map_err(|_| libc::EAI_FAMILY)?;
    let name = match node.is_null() {
        true => CString::default(),
        // SAFETY: a text of the program.
        false => unsafe { CStr::from_ptr(node) }.to_owned(),
    };
    Ok(Found { address, name })
}

/// Builds the result. The resolved address is the source if `RAI_PASSIVE` is set, and the
/// destination otherwise. The hints have the other address.
fn answer(hints: &RdmaAddrinfo, found: Option<Found>) -> Result<*mut RdmaAddrinfo, Errno> {
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
    let info = RdmaAddrinfo {
        ai_flags: hints.ai_flags,
        ai_family: family.unwrap_or(hints.ai_family),
        ai_qp_type: kind,
        ai_port_space: space,
        ..RdmaAddrinfo::zeroed()
    };
    let list = Out::<RdmaAddrinfo>::allocated(allocated(&[info])?.cast_mut());
    let info = list.get()?;
    fill(info, src, dst, &name, is_passive).inspect_err(|_| freeaddrinfo(info))?;
    Ok(info)
}

fn fill(
    info: &mut RdmaAddrinfo,
    src: Option<SocketAddr>,
    dst: Option<SocketAddr>,
    name: &CStr,
    is_passive: bool,
) -> Result<(), Errno> {
    if let Some(src) = src {
        info.ai_src_addr = In::at(allocated(&sockaddr::storage(src))? as u64);
        info.ai_src_len = sockaddr::len(src);
    }
    if let Some(dst) = dst {
        info.ai_dst_addr = In::at(allocated(&sockaddr::storage(dst))? as u64);
        info.ai_dst_len = sockaddr::len(dst);
    }
    if !name.is_empty() {
        let name = allocated(name.to_bytes_with_nul())?.cast();
        if is_passive {
            info.ai_src_canonname = name;
        } else {
            info.ai_dst_canonname = name;
        }
    }
    Ok(())
}

/// A copy in memory from `malloc`.
fn allocated<T: Copy>(from: &[T]) -> Result<*const T, Errno> {
    // SAFETY: malloc may be called at any time.
    let memory = unsafe { libc::malloc(size_of_val(from)) }.cast::<T>();
    if memory.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: `malloc` returned memory of this size, aligned for any type, and it is not shared
    // yet.
    unsafe { memory.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    Ok(memory)
}

/// An address, if its length is not 0.
fn given(address: In<u8>, len: u32) -> In<u8> {
    if len == 0 { In::at(0) } else { address }
}

/// Port space and QP type. If only one is given, the other follows from it.
fn kinds(hints: &RdmaAddrinfo) -> (c_int, c_int) {
    let [tcp, udp, ib] = [PS_TCP, PS_UDP, PS_IB].map(int);
    let [connected, datagram] = [QPT_RC, QPT_UD].map(int);
    match (hints.ai_port_space, hints.ai_qp_type) {
        (0, kind) if kind == datagram => (udp, datagram),
        (0, 0) => (tcp, connected),
        (0, kind) => (tcp, kind),
        (space, 0) if space == udp => (udp, datagram),
        (space, 0) if space == tcp || space == ib => (space, connected),
        given => given,
    }
}

/// `rdma_freeaddrinfo`. A program may have changed the list, for example appended entries, or put
/// its own memory into fields. So each field is freed separately with `free`.
pub(crate) extern "C" fn freeaddrinfo(info: *mut RdmaAddrinfo) {
    let mut next = info;
    // SAFETY: NULL, or an entry that `getaddrinfo` or the program allocated. The program no longer
    // uses it.
    while let Some(info) = unsafe { next.as_ref() } {
        let fields: [*const c_void; 7] = [
            info.ai_src_addr.as_ptr().cast(),
            info.ai_dst_addr.as_ptr().cast(),
            info.ai_src_canonname.cast(),
            info.ai_dst_canonname.cast(),
            info.ai_connect.as_ptr().cast(),
            info.ai_route.cast_const(),
            std::ptr::from_ref(info).cast(),
        ];
        next = info.ai_next;
        for field in fields {
            // SAFETY: NULL, or memory from `malloc`: `getaddrinfo` puts nothing else there, and the
            // man page requires the same of programs. The entry itself is freed last.
            unsafe { libc::free(field.cast_mut()) };
        }
    }
}
