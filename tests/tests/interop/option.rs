//! Options of sockets for which the standard library has no call.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Sets an option whose value is an int.
///
/// # Panics
/// If the kernel refuses.
#[track_caller]
pub(crate) fn set_option(socket: &UdpSocket, level: i32, name: i32, value: libc::c_int) {
    let size = libc::socklen_t::try_from(size_of_val(&value)).unwrap();
    // SAFETY: the option's value is an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
