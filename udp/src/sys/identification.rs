//! The identification that a connected IPv4 socket gives its next datagram.
//!
//! Such a socket numbers its datagrams upwards from a random start. If software timestamps are on,
//! the kernel returns a sent packet, with its IP header, on the socket's error queue. So a datagram
//! that the host sends to itself reveals its number, and no other host sees it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::options;
use super::send::send_plain;

/// The "discard" port, which is the destination of the datagram. It does not matter whether a
/// service listens there.
const DISCARD: u16 = 9;

/// The longest packet that is read back, in bytes.
const MAX_PACKET_BYTES: usize = 256;

/// The first bytes of the datagram's payload. The number of the attempt follows, so that a datagram
/// of an earlier attempt is not mistaken for the current one.
const MARK: &[u8; 8] = b"identify";

/// The number of attempts of all sockets so far.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// Learns the identification of the next datagram of a connected socket. The socket is bound to
/// `own`. This sends a datagram.
///
/// # Errors
/// If the kernel does not return the datagram, for example because it lacks software timestamps.
pub(crate) fn next(fd: BorrowedFd<'_>, own: Ipv4Addr) -> io::Result<u16> {
    let on = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    options::set(
        fd,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPING,
        on.cast_signed(),
    )?;
    let id = send_and_read_id(fd, own);
    options::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0)?;
    id.map(|last| last.wrapping_add(1))
}

fn send_and_read_id(fd: BorrowedFd<'_>, own: Ipv4Addr) -> io::Result<u16> {
    // If the first call reports an error of an earlier packet, the second one sends.
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(MARK);
    mark[8..].copy_from_slice(&attempt.to_be_bytes());
    let send = || send_plain(fd, &mark, Some((IpAddr::V4(own), DISCARD)), 0);
    send().or_else(|_| send())?;
    // The kernel delivers to its own addresses within the call. The queue may contain entries of
    // earlier packets before this one.
    let mut packet = [0; MAX_PACKET_BYTES];
    for _ in 0..1024 {
        let len = read_error_queue(fd, &mut packet)?;
        if let Some(id) = id_of(&packet[..len.min(MAX_PACKET_BYTES)], &mark) {
            return Ok(id);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn read_error_queue(fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes at most `into.len()` bytes to the slice.
    let len = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// The identification in a packet that ends with an IP header without options, a UDP header and
/// `mark`. Other headers may come first.
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
    fn the_identification_counts_datagrams() {
        let there = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let here = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        here.connect(there.local_addr().expect("bound"))
            .expect("connected");
        let fd = here.as_fd();
        let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        options::set(fd, level, name, libc::IP_PMTUDISC_PROBE).expect("an option");
        let first = next(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
        for sent in 1..=3_u16 {
            here.send(b"data").expect("sent");
            // The datagram that `next` sends has a number, too.
            let now = next(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
            assert_eq!(now, first.wrapping_add(2 * sent));
        }
    }

    #[test]
    fn the_next_datagram_has_the_identification() {
        let here = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        here.connect("127.0.0.1:9").expect("connected");
        let fd = here.as_fd();
        let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        options::set(fd, level, name, libc::IP_PMTUDISC_PROBE).expect("an option");
        for _ in 0..3 {
            let predicted = next(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
            let on = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
            let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
            options::set(fd, level, name, on.cast_signed()).expect("an option");
            let found = send_and_read_id(fd, Ipv4Addr::LOCALHOST).expect("timestamps");
            assert_eq!(found, predicted);
        }
    }

    #[test]
    fn only_a_complete_packet_with_the_mark_has_an_identification() {
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
