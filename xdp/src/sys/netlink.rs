//! One question to rtnetlink.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::{checked, owned};

/// What the kernel says of an interface: its whole answer (`RTM_NEWLINK`).
///
/// # Errors
/// If it does not tell, for instance because there is no such interface.
pub(crate) fn link(index: u32) -> io::Result<Vec<u8>> {
    // SAFETY: the call takes no pointers.
    let result = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    };
    let socket = owned(result.into())?;
    // `struct nlmsghdr` and `struct ifinfomsg`.
    let mut question = [0; 32];
    question[0..4].copy_from_slice(&32_u32.to_ne_bytes());
    question[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    question[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    question[20..24].copy_from_slice(&index.to_ne_bytes());
    // SAFETY: the pointer is to as many bytes as told. No address: to the kernel.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            question.as_ptr().cast(),
            question.len(),
            0,
        )
    };
    checked(sent as libc::c_long)?;
    let mut answer = vec![0_u8; 1 << 15];
    let (from, len) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the kernel writes at most as many bytes as told, and no address.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            answer.as_mut_ptr().cast(),
            answer.len(),
            0,
            from,
            len,
        )
    };
    answer.truncate(checked(got as libc::c_long)? as usize);
    let kind = answer
        .get(4..6)
        .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    match kind {
        Some(libc::RTM_NEWLINK) => Ok(answer),
        Some(kind) if kind == libc::NLMSG_ERROR as u16 => {
            let code = answer
                .get(16..20)
                .and_then(|code| code.first_chunk().copied());
            Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(
                code.unwrap_or_default(),
            )))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
