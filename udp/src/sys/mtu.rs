//! The MTU of an interface. A system call returns it; sysfs may show another network namespace.

use std::io;
use std::os::fd::AsRawFd;

/// The MTU of the interface `name` in this network namespace, in bytes.
pub(crate) fn interface_mtu(name: &str) -> io::Result<usize> {
    // SAFETY: an `ifreq` of zeros is a valid value: names and unions of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero and ends the name.
    let max_len = request.ifr_name.len() - 1;
    if name.len() > max_len || name.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no interface has such a name",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the descriptor is open, and SIOCGIFMTU reads and writes one `ifreq`.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just filled in the member `ifru_mtu`.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "negative MTU"))
}
