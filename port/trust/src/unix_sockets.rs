//! The kernel's list of Unix sockets, with the users that own them (`sock_diag(7)`).
//!
//! `/proc/net/unix` has the same sockets without their users.

use crate::netlink::{HEADER_BYTES, Netlink, find, kind_of, u32_at};
use std::io;

/// `NETLINK_SOCK_DIAG`'s request for sockets of one family.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// The members of `struct unix_diag_req` and `struct unix_diag_msg` (`linux/unix_diag.h`).
const SHOW_NAME: u32 = 1;
const SHOW_UID: u32 = 0x40;
const NAME: u16 = 0;
const UID: u16 = 7;
const MESSAGE_BYTES: usize = 16;

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
pub struct UnixSockets(Netlink);

impl UnixSockets {
    /// Connects, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel has no such list, or the system no descriptor left.
    pub fn open() -> io::Result<Self> {
        Netlink::open(libc::NETLINK_SOCK_DIAG).map(Self)
    }

    /// The sockets that are bound to abstract names with this prefix. Those that were accepted are
    /// left out.
    ///
    /// # Errors
    /// If the kernel has no list of Unix sockets, or refuses it.
    pub fn list(&self, prefix: &str) -> io::Result<Vec<NamedSocket>> {
        let mut request = vec![libc::AF_UNIX as u8, 0, 0, 0];
        // All states.
        request.extend(u32::MAX.to_ne_bytes());
        // No particular inode.
        request.extend([0; 4]);
        request.extend((SHOW_NAME | SHOW_UID).to_ne_bytes());
        // No particular socket.
        request.extend([0; 8]);
        let mut sockets = Vec::new();
        self.0.dump(SOCK_DIAG_BY_FAMILY, &request, |message| {
            sockets.extend(socket(message, prefix));
        })?;
        Ok(sockets)
    }
}

/// The socket that a message describes, if it has a name with this prefix and was not accepted.
fn socket(message: &[u8], prefix: &str) -> Option<NamedSocket> {
    if kind_of(message)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let state = *message.get(HEADER_BYTES + 2)?;
    let attributes = message.get(HEADER_BYTES + MESSAGE_BYTES..)?;
    let name = str::from_utf8(find(attributes, NAME)?).ok()?;
    let name = name.strip_prefix('\0');
    let uid = find(attributes, UID).and_then(|uid| u32_at(uid, 0));
    let name = name.filter(|name| name.starts_with(prefix) && state != ESTABLISHED)?;
    Some(NamedSocket {
        name: name.to_owned(),
        uid,
        is_listening: state == LISTEN,
    })
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
    fn damaged_messages_are_left_out() {
        let mut message = vec![0; HEADER_BYTES];
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.extend([1, 1, 10, 0]);
        message.extend([0; 12]);
        message.extend([7, 0, 0, 0, 0, b'a', b'b', 0]);
        message.extend([8, 0, 7, 0, 5, 0, 0, 0]);
        let expected = NamedSocket {
            name: "ab".to_owned(),
            uid: Some(5),
            is_listening: true,
        };
        assert_eq!(socket(&message, "a"), Some(expected));
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut damaged = message.clone();
                damaged[at] ^= 1 << bit;
                let _ = socket(&damaged, "");
                let _ = socket(&damaged[..at], "");
            }
        }
    }
}
