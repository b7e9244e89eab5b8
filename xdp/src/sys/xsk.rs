//! System calls for AF_XDP sockets.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use roce_port::fork;

use super::{checked, owned};

/// Creates an AF_XDP socket. Forked children give it up.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let socket = owned(fd.into())?;
    fork::give_up_in_children(&socket)?;
    Ok(socket)
}

/// Sets an option to a plain value.
pub(crate) fn set_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a value of the given size that lives through the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            len,
        )
    };
    checked(result.into()).map(drop)
}

/// Reads an option. Returns its value and the number of bytes that this kernel filled in. The rest
/// is zero.
pub(crate) fn option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the value's size.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    checked(result.into())?;
    // SAFETY: any bytes, zeros included, are a valid value of a plain type.
    Ok((unsafe { value.assume_init() }, len as usize))
}

/// Types for which any bytes are a valid value, without padding.
///
/// # Safety
/// The type must have this property.
pub(crate) unsafe trait Plain {}
// SAFETY: any bytes are a number.
unsafe impl Plain for libc::c_int {}
// SAFETY: any bytes are a number.
unsafe impl Plain for u32 {}
// SAFETY: four 64-bit words.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: six 64-bit words.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: one 32-bit word.
unsafe impl Plain for libc::xdp_options {}

/// Registers memory for frames.
///
/// # Safety
/// The kernel writes to the memory from now on. The memory must stay mapped while the socket is
/// open, and this process must not access a chunk while the kernel has it.
pub(crate) unsafe fn register_umem(
    fd: BorrowedFd<'_>,
    registration: &libc::xdp_umem_reg,
) -> io::Result<()> {
    let len = size_of::<libc::xdp_umem_reg>() as libc::socklen_t;
    let value = ptr::from_ref(registration).cast();
    // SAFETY: the pointer is to a value of the given size. The caller guarantees that the memory in
    // it is valid.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_UMEM_REG,
            value,
            len,
        )
    };
    checked(result.into()).map(drop)
}

/// Binds a socket to a queue.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the pointer is to a socket address of the given size.
    let result = unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(address).cast(), len) };
    checked(result.into()).map(drop)
}

/// Makes the kernel check the TX ring.
///
/// Uses the bare system call, because the C library's function is a cancellation point
/// (`pthread_cancel`), and callers hold a lock. The C function also costs a hundred more
/// instructions.
pub(crate) fn wake_tx(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (buffer, address) = (ptr::null::<u8>(), ptr::null::<libc::sockaddr>());
    // SAFETY: the arguments of `sendto`: a null buffer of no bytes and no address.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            buffer,
            0_usize,
            libc::MSG_DONTWAIT,
            address,
            0 as libc::socklen_t,
        )
    };
    checked(result).map(drop)
}

/// Makes the kernel check the fill ring and receive frames. Uses the bare system call, as
/// [`wake_tx`] does.
pub(crate) fn wake_rx(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (buffer, from) = (ptr::null_mut::<u8>(), ptr::null_mut::<libc::sockaddr>());
    let len = ptr::null_mut::<libc::socklen_t>();
    // SAFETY: the arguments of `recvfrom`: a null buffer of no bytes, and no buffer for an address.
    let result = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            buffer,
            0_usize,
            libc::MSG_DONTWAIT,
            from,
            len,
        )
    };
    checked(result).map(drop)
}
