//! The sockets with which senders wake up a receiver.

use roce_port::fork;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// A receiver's doorbell: readable after somebody has rung it, until it is silenced. All senders share one
/// pair of sockets: an eventfd would do, but whoever has one can make all writes to it block.
#[derive(Debug)]
pub(crate) struct Doorbell {
    reader: UnixDatagram,
    writer: UnixDatagram,
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixDatagram::pair()?;
        fork::give_up_in_children(&reader)?;
        fork::give_up_in_children(&writer)?;
        reader.set_nonblocking(true)?;
        Ok(Self { reader, writer })
    }

    /// A descriptor for a sender.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.writer.try_clone()?.into())
    }

    /// The descriptor to wait on.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub(crate) fn ring(&self) {
        ring(self.writer.as_fd());
    }

    pub(crate) fn silence(&self) {
        // The kernel queues a few datagrams, and refuses more.
        while self.reader.recv(&mut [0]).is_ok() {}
    }
}

/// Rings the doorbell behind a descriptor that a receiver has sent. Nothing depends on the result: the
/// descriptor may be any file of a program of this user, and a doorbell that takes no more is rung.
pub(crate) fn ring(doorbell: BorrowedFd<'_>) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let byte = [0_u8];
    // SAFETY: the buffer has this length.
    unsafe { libc::send(doorbell.as_raw_fd(), byte.as_ptr().cast(), 1, flags) };
}
