//! The kernel's list of Unix sockets, with the users that own them (`sock_diag(7)`).
//!
//! `/proc/net/unix` has the same sockets without their users.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `NETLINK_SOCK_DIAG`'s request for sockets of one family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// The members of `struct unix_diag_req` and `struct unix_diag_msg` (`linux/unix_diag.h`).
const SHOW_NAME: u32 = 1;
const SHOW_UID: u32 = 0x40;
const NAME: u16 = 0;
const UID: u16 = 7;
const MESSAGE_BYTES: usize = 16;

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// The kernel sends at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// The state of a connected socket: one that was accepted has the name of the listener.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;

/// A socket that is bound to a name of the abstract namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSocket {
    /// Without the zero byte in front.
    pub name: String,
    /// The user that owns it, as [`OwnUser`](crate::OwnUser) compares it; `None` if the kernel is
    /// too old to say (before Linux 5.3).
    pub uid: Option<u32>,
    /// Whether it accepts connections.
    pub is_listening: bool,
}

/// A connection to the kernel that lists the Unix sockets of one network namespace.
#[derive(Debug)]
pub struct UnixSockets(OwnedFd);

impl UnixSockets {
    /// Connects, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel has no such list, or the system no descriptor left.
    pub fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The sockets that are bound to abstract names with this prefix. Those that were accepted are
    /// left out.
    ///
    /// # Errors
    /// If the kernel has no list of Unix sockets, or refuses it.
    pub fn list(&self, prefix: &str) -> io::Result<Vec<NamedSocket>> {
        self.request()?;
        let mut sockets = Vec::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = self.receive(&mut buffer)?;
            match parse(&buffer[..len], prefix, &mut sockets)? {
                Progress::More => {}
                Progress::Done => return Ok(sockets),
            }
        }
    }

    fn request(&self) -> io::Result<()> {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        let mut request = Vec::with_capacity(HEADER_BYTES + 24);
        let len = (HEADER_BYTES + 24) as u32;
        request.extend(len.to_ne_bytes());
        request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        // Sequence number and port.
        request.extend([0; 8]);
        request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
        // All states.
        request.extend(u32::MAX.to_ne_bytes());
        // No particular inode.
        request.extend([0; 4]);
        request.extend((SHOW_NAME | SHOW_UID).to_ne_bytes());
        // No particular socket.
        request.extend([0; 8]);
        // SAFETY: the pointer and the length are those of the vector.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives a piece of the answer, which the kernel has ready.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the pointer and the length are those of the slice.
        let len = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                flags,
            )
        };
        usize::try_from(len).map_err(|_| io::Error::last_os_error())
    }
}

/// Whether an answer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

/// Appends the sockets in a piece of the answer.
fn parse(mut bytes: &[u8], prefix: &str, sockets: &mut Vec<NamedSocket>) -> io::Result<Progress> {
    const ERROR: u16 = libc::NLMSG_ERROR as u16;
    const DONE: u16 = libc::NLMSG_DONE as u16;
    while bytes.len() >= HEADER_BYTES {
        let len = u32_at(bytes, 0).and_then(|len| usize::try_from(len).ok());
        let message = len.and_then(|len| bytes.get(HEADER_BYTES..len));
        let (Some(len), Some(message)) = (len, message) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match u16_at(bytes, 4) {
            Some(DONE) => return Ok(Progress::Done),
            Some(ERROR) => {
                let code = u32_at(message, 0).unwrap_or_default().cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            Some(SOCK_DIAG_BY_FAMILY) => sockets.extend(socket(message, prefix)),
            _ => {}
        }
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
    Ok(Progress::More)
}

/// The socket that a message describes, if it has a name with this prefix and was not accepted.
fn socket(message: &[u8], prefix: &str) -> Option<NamedSocket> {
    let state = *message.get(2)?;
    let mut attributes = message.get(MESSAGE_BYTES..)?;
    let (mut name, mut uid) = (None, None);
    while let (Some(len), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let value = attributes.get(ATTRIBUTE_HEADER_BYTES..usize::from(len))?;
        match kind {
            NAME => name = str::from_utf8(value).ok()?.strip_prefix('\0'),
            UID => uid = u32_at(value, 0),
            _ => {}
        }
        attributes = attributes.get(aligned(len.into())..).unwrap_or_default();
    }
    let name = name.filter(|name| name.starts_with(prefix) && state != ESTABLISHED)?;
    Some(NamedSocket {
        name: name.to_owned(),
        uid,
        is_listening: state == LISTEN,
    })
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    #[test]
    fn the_kernel_lists_names_and_their_users() {
        if !testkit::descriptors_or_skip(4096) {
            return;
        }
        let prefix = format!("roce-unix-diag/{}/", std::process::id());
        let mut held = Vec::new();
        for n in 0..500 {
            let address = SocketAddr::from_abstract_name(format!("{prefix}{n}")).expect("a name");
            let listener = UnixListener::bind_addr(&address).expect("a free name");
            let client = UnixStream::connect_addr(&address).expect("a listener");
            let accepted = listener.accept().expect("connected");
            held.push((listener, client, accepted));
        }
        let diag = UnixSockets::open().expect("Linux");
        let own = crate::OwnUser::now().id();
        for _ in 0..2 {
            let mut found = diag.list(&prefix).expect("a list");
            found.sort_by_key(|socket| socket.name[prefix.len()..].parse::<u32>().ok());
            let expected: Vec<NamedSocket> = (0..500)
                .map(|n| NamedSocket {
                    name: format!("{prefix}{n}"),
                    uid: Some(own),
                    is_listening: true,
                })
                .collect();
            assert_eq!(found, expected);
        }
        assert_eq!(diag.list("roce-unix-diag/none").expect("a list"), []);
    }

    /// Whatever the bytes are, reading them ends.
    #[test]
    fn damaged_answers_are_errors_or_left_out() {
        let mut message = vec![1, 1, 10, 0];
        message.extend([0; 12]);
        message.extend([7, 0, 0, 0, 0, b'a', b'b', 0]);
        message.extend([8, 0, 7, 0, 5, 0, 0, 0]);
        let mut answer = (HEADER_BYTES as u32 + message.len() as u32)
            .to_ne_bytes()
            .to_vec();
        answer.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer.extend([0; 10]);
        answer.extend(&message);
        let mut sockets = Vec::new();
        assert_eq!(parse(&answer, "a", &mut sockets).ok(), Some(Progress::More));
        let expected = NamedSocket {
            name: "ab".to_owned(),
            uid: Some(5),
            is_listening: true,
        };
        assert_eq!(sockets, [expected]);
        for at in 0..answer.len() {
            for bit in 0..8 {
                let mut damaged = answer.clone();
                damaged[at] ^= 1 << bit;
                let _ = parse(&damaged, "", &mut sockets);
                let _ = parse(&damaged[..at], "", &mut sockets);
            }
        }
    }
}
