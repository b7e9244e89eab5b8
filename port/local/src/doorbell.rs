//! The doorbells with which senders wake up a receiver.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use roce_port::fork;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// The doorbells of a receiver, behind one descriptor to wait on. Each sender has one of its own: a process
/// that has a socket can shut it down or connect it elsewhere, and then it rings for nobody.
#[derive(Debug)]
pub(crate) struct Doorbells {
    all: Arc<Epoll>,
    /// The receiver's own.
    own: EventFd,
}

impl Doorbells {
    pub(crate) fn new() -> io::Result<Self> {
        let all = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let own = EventFd::from_value_and_flags(0, flags)?;
        all.add(&own, event_of(&own))?;
        Ok(Self { all, own })
    }

    /// A doorbell for a sender, and the sender's descriptor of it: a socket, because a process that has an
    /// eventfd can make all writes to it block.
    pub(crate) fn add(&self) -> io::Result<(Doorbell, OwnedFd)> {
        let (reader, writer) = UnixDatagram::pair()?;
        fork::give_up_in_children(&reader)?;
        fork::give_up_in_children(&writer)?;
        reader.set_nonblocking(true)?;
        self.all.add(&reader, event_of(&reader))?;
        let all = Arc::clone(&self.all);
        Ok((Doorbell { reader, all }, writer.into()))
    }

    /// The descriptor to wait on.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.all.0.as_fd()
    }

    /// Rings the receiver's own doorbell.
    pub(crate) fn ring(&self) {
        // It fails if nobody has listened for 2^64 times.
        let _ = self.own.write(1);
    }

    /// Silences the receiver's own doorbell and those of `senders` that have been rung.
    pub(crate) fn silence<'a>(&self, senders: impl Iterator<Item = &'a Doorbell> + Clone) {
        let mut rung = [EpollEvent::empty(); 16];
        // Doorbells beyond these stay rung until the next call.
        let count = self.all.wait(&mut rung, EpollTimeout::ZERO).unwrap_or(0);
        for event in &rung[..count] {
            if event.data() == event_of(&self.own).data() {
                let _ = self.own.read();
                continue;
            }
            let has_rung = |sender: &&Doorbell| event_of(&sender.reader).data() == event.data();
            if let Some(sender) = senders.clone().find(has_rung) {
                // Usually one byte waits, because a sender rings once for each sleep.
                let _ = sender.reader.recv(&mut [0]);
            }
        }
    }
}

/// The event that a descriptor is readable.
fn event_of(fd: &impl AsFd) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, fd.as_fd().as_raw_fd() as u64)
}

/// The receiver's end of a sender's doorbell.
#[derive(Debug)]
pub(crate) struct Doorbell {
    reader: UnixDatagram,
    all: Arc<Epoll>,
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        // Closing it is not enough while a child has a copy.
        let _ = self.all.delete(&self.reader);
    }
}

/// The sender's end of its doorbell, which the receiver has sent.
#[derive(Debug)]
pub(crate) struct Ringer(OwnedFd);

impl Ringer {
    /// `None` if the descriptor is not one of a Unix datagram socket. A call for any other socket may wait
    /// for a lock, which a process can hold while a page of its memory is missing.
    pub(crate) fn new(descriptor: OwnedFd) -> Option<Self> {
        let has = |option, value| option_of(descriptor.as_fd(), option) == Some(value);
        let is_one = has(libc::SO_DOMAIN, libc::AF_UNIX) && has(libc::SO_TYPE, libc::SOCK_DGRAM);
        is_one.then_some(Self(descriptor))
    }

    /// Rings. Never blocks. Nothing depends on the result: a doorbell that takes no more is rung.
    pub(crate) fn ring(&self) {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let byte = [0_u8];
        // SAFETY: the buffer has this length.
        unsafe { libc::send(self.0.as_raw_fd(), byte.as_ptr().cast(), 1, flags) };
    }
}

#[cfg(test)]
impl AsFd for Ringer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An option of a socket, with a number as its value; `None` if the descriptor is not a socket's.
fn option_of(socket: BorrowedFd<'_>, option: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: value and length are ours, and the length is the value's.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    (got == 0).then_some(value)
}
