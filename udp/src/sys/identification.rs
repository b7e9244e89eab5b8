//! The identification that a connected IPv4 socket gives its next datagram.
//!
//! Such a socket numbers its datagrams upwards from a random start. A software timestamp returns a
//! sent packet, with its IP header, on the socket's error queue. So a datagram that the host sends
//! to itself shows its number, and no other host sees it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::options;
use super::send::send_plain;

/// The "discard" port, at which the datagram that shows its number is sent. Whether a service
/// listens there does not matter.
const DISCARD: u16 = 9;

/// The longest packet that is read back, in bytes.
const ROOM: usize = 256;

/// How the payload of a datagram that shows its number begins. The number of the attempt follows, so
/// that none is taken for a later one.
const MARK: &[u8; 8] = b"identify";

/// The number of attempts so far, of all sockets.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// Learns the identification of the datagram that the socket sends next. The socket is bound to
/// `own` and connected.
///
/// # Errors
/// If the kernel does not return the datagram, such as one without software timestamps.
pub(crate) fn next(fd: BorrowedFd<'_>, own: Ipv4Addr) -> io::Result<u16> {
    let on = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    options::set(
        fd,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        on.cast_signed(),
    )?;
    let seen = show_one(fd, own);
    options::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0)?;
    seen.map(|last| last.wrapping_add(1))
}

fn show_one(fd: BorrowedFd<'_>, own: Ipv4Addr) -> io::Result<u16> {
    // An error from an earlier packet is reported first, and only once.
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(MARK);
    mark[8..].copy_from_slice(&attempt.to_be_bytes());
    let send = || send_plain(fd, &mark, Some((IpAddr::V4(own), DISCARD)), 0);
    send().or_else(|_| send())?;
    // The kernel delivers to its own addresses within the call. What belongs to earlier packets may
    // lie before it in the queue.
    let mut packet = [0; ROOM];
    for _ in 0..1024 {
        let len = from_error_queue(fd, &mut packet)?;
        if let Some(id) = id_of(&packet[..len.min(ROOM)], &mark) {
            return Ok(id);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn from_error_queue(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most as many bytes as the slice has.
    let len = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// The identification in a packet that ends with `mark`: IP header without options, UDP header,
/// payload, whatever comes before them.
fn id_of(packet: &[u8], mark: &[u8; 16]) -> Option<u16> {
    const HEADERS: usize = 20 + 8;
    let before = packet.strip_suffix(mark)?;
    let header = before.get(before.len().checked_sub(HEADERS)?..)?;
    (header[0] == 0x45).then(|| u16::from_be_bytes([header[4], header[5]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn it_counts_the_calls_that_send() {
        let there = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let here = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        here.connect(there.local_addr().expect("bound"))
            .expect("connected");
        let fd = here.as_fd();
        let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        options::set(fd, level, name, libc::IP_PMTUDISC_DO).expect("an option");
        let first = next(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
        for sent in 1..=3_u16 {
            here.send(b"data").expect("sent");
            // The datagram that showed its number has one, too.
            let now = next(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
            assert_eq!(now, first.wrapping_add(2 * sent));
        }
    }

    #[test]
    fn only_a_whole_packet_of_ours_has_one() {
        let mut packet = vec![0_u8; 14];
        packet.extend([0x45, 0, 0, 44, 0x12, 0x34, 0x40, 0]);
        packet.extend([0; 20]);
        let mark = b"identify\0\0\0\0\0\0\0\x07";
        packet.extend(mark);
        assert_eq!(id_of(&packet, mark), Some(0x1234));
        assert_eq!(id_of(&packet[14..], mark), Some(0x1234));
        assert_eq!(id_of(&packet[15..], mark), None);
        assert_eq!(id_of(&packet[..packet.len() - 1], mark), None);
        assert_eq!(id_of(&[], mark), None);
        let earlier = b"identify\0\0\0\0\0\0\0\x06";
        assert_eq!(id_of(&packet, earlier), None, "of another attempt");
        packet[14] = 0x46;
        assert_eq!(id_of(&packet, mark), None);
    }
}
