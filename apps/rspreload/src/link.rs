//! Messages between a forked child and its parent, over a pair of sockets.

use crate::errno::{Errno, Outcome, check_size};
use crate::socket::lock;
use crate::{hidden, real};
use libc::{c_void, cmsghdr, iovec, msghdr};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The child wants a connection, to use it now.
    Use,
    /// The child wants a connection, for a program that it is about to execute.
    Keep,
    /// The child has closed a connection without using it.
    Release,
    /// The child wants to listen over RDMA.
    Listen,
    /// The parent agrees. A descriptor comes with a connection.
    Granted,
    /// The parent refuses.
    Refused,
}

/// A request or an answer about the socket with an [id](crate::socket::Socket::id).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) op: Op,
    pub(crate) id: u64,
}

const BYTES: usize = 9;

impl Message {
    fn bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = self.op as u8;
        bytes[1..].copy_from_slice(&self.id.to_ne_bytes());
        bytes
    }

    fn parse(bytes: [u8; BYTES]) -> Option<Self> {
        let [op, id @ ..] = bytes;
        let op = match op {
            0 => Op::Use,
            1 => Op::Keep,
            2 => Op::Release,
            3 => Op::Listen,
            4 => Op::Granted,
            5 => Op::Refused,
            _ => return None,
        };
        let id = u64::from_ne_bytes(id);
        Some(Self { op, id })
    }
}

/// Creates a hidden pair of connected sockets.
pub(crate) fn pair(kind: c_int) -> Outcome<[c_int; 2]> {
    let mut pair = [-1; 2];
    // SAFETY: there is room for two.
    let result = unsafe {
        real::socketpair(
            libc::AF_UNIX,
            kind | libc::SOCK_CLOEXEC,
            0,
            pair.as_mut_ptr(),
        )
    };
    crate::errno::check(result)?;
    Ok(pair.map(hidden::hide))
}

/// Creates a pair for messages.
pub(crate) fn control_pair() -> Outcome<[c_int; 2]> {
    pair(libc::SOCK_SEQPACKET)
}

/// Ancillary data for one descriptor.
#[repr(C)]
struct Ancillary {
    header: MaybeUninit<cmsghdr>,
    fd: c_int,
    padding: c_int,
}

pub(crate) fn send(link: c_int, message: Message, fd: Option<c_int>) -> Outcome<()> {
    let mut bytes = message.bytes();
    let mut part = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: BYTES,
    };
    let mut ancillary = Ancillary {
        header: MaybeUninit::zeroed(),
        fd: fd.unwrap_or(-1),
        padding: 0,
    };
    // SAFETY: zeros are valid.
    let mut raw: msghdr = unsafe { std::mem::zeroed() };
    raw.msg_iov = &raw mut part;
    raw.msg_iovlen = 1;
    if fd.is_some() {
        let header = cmsghdr {
            cmsg_len: (size_of::<cmsghdr>() + size_of::<c_int>()) as _,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        ancillary.header.write(header);
        raw.msg_control = (&raw mut ancillary).cast::<c_void>();
        raw.msg_controllen = size_of::<Ancillary>() as _;
    }
    retry_interrupted(|| {
        // SAFETY: the message and what it points to can be read.
        unsafe { real::sendmsg(link, &raw const raw, libc::MSG_NOSIGNAL) }
    })
    .map(drop)
}

/// Receives a message. Fails with `EPIPE` if the other process has exited.
pub(crate) fn receive(link: c_int) -> Outcome<(Message, Option<c_int>)> {
    let mut bytes = [0; BYTES];
    let mut part = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: BYTES,
    };
    let mut ancillary = Ancillary {
        header: MaybeUninit::zeroed(),
        fd: -1,
        padding: 0,
    };
    // SAFETY: zeros are valid.
    let mut raw: msghdr = unsafe { std::mem::zeroed() };
    raw.msg_iov = &raw mut part;
    raw.msg_iovlen = 1;
    raw.msg_control = (&raw mut ancillary).cast::<c_void>();
    raw.msg_controllen = size_of::<Ancillary>() as _;
    let count = retry_interrupted(|| {
        // SAFETY: the message has room for the bytes and the descriptor.
        unsafe { real::recvmsg(link, &raw mut raw, libc::MSG_CMSG_CLOEXEC) }
    })?;
    let message = Message::parse(bytes).filter(|_| count == BYTES as isize);
    let message = message.ok_or(Errno(libc::EPIPE))?;
    Ok((message, (ancillary.fd >= 0).then_some(ancillary.fd)))
}

fn retry_interrupted(mut call: impl FnMut() -> isize) -> Outcome<isize> {
    loop {
        match check_size(call()) {
            Err(Errno(libc::EINTR)) => {}
            result => return result,
        }
    }
}

/// The link to the parent, if it had sockets to hand over and still runs.
static PARENT: Mutex<Option<c_int>> = Mutex::new(None);

/// Takes the lock that a fork holds.
pub(crate) fn lock_link() -> MutexGuard<'static, Option<c_int>> {
    lock(&PARENT)
}

/// Sends a request and waits for the answer, with a descriptor if a connection is granted. The parent
/// answers without delay; if it has exited, the call fails with `EPIPE`.
pub(crate) fn ask(op: Op, id: u64) -> Outcome<Option<c_int>> {
    let mut parent = lock_link();
    let link = parent.ok_or(Errno(libc::EPIPE))?;
    let answer = send(link, Message { op, id }, None).and_then(|()| receive(link));
    match answer {
        Ok((answer, fd)) if answer.op == Op::Granted => Ok(fd),
        Ok(_) => Err(Errno(libc::EADDRINUSE)),
        Err(_) => {
            *parent = None;
            hidden::close(link);
            Err(Errno(libc::EPIPE))
        }
    }
}

/// Sends a request that needs no answer.
pub(crate) fn tell(op: Op, id: u64) {
    if let Some(link) = *lock_link() {
        // An error means that the parent has exited.
        let _ = send(link, Message { op, id }, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_comes_with_its_message() {
        let [a, b] = control_pair().expect("a pair");
        let sent = Message {
            op: Op::Granted,
            id: 7,
        };
        send(a, sent, Some(a)).expect("room");
        let (received, fd) = receive(b).expect("a message");
        assert_eq!(received, sent);
        hidden::close(fd.expect("a descriptor"));
        hidden::close(a);
        assert_eq!(receive(b), Err(Errno(libc::EPIPE)));
        hidden::close(b);
    }
}
