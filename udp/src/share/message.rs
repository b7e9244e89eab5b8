//! The messages between members of a group.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use roce_stack::QpnRange;

use crate::sys::rights::{self, Received};

/// The number of sockets of the largest group.
const MAX_SOCKETS: usize = QpnRange::COUNT as usize;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The sender requests the group's sockets.
    RequestSockets = 1,
    /// The sender is a member. The message may carry the group's sockets, starting with the first.
    Announce = 2,
    /// The sender offers a file, which the message carries.
    Offer = 3,
    /// The sender has accepted the file. The message carries a descriptor.
    Accept = 4,
}

/// A message, the sender's part, and the descriptors that came with it: sockets, mostly.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) part: QpnRange,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Sends a message with descriptors. Never blocks.
pub(super) fn send(
    to: &UnixStream,
    kind: Kind,
    part: QpnRange,
    descriptors: &[impl AsFd],
) -> io::Result<()> {
    let bytes = [kind as u8, part.number()];
    let descriptors = descriptors.iter().map(|of| of.as_fd().as_raw_fd());
    let descriptors: Vec<RawFd> = descriptors.collect();
    let rights = [ControlMessage::ScmRights(&descriptors)];
    let rights = if descriptors.is_empty() {
        &[]
    } else {
        &rights[..]
    };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let sent = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(&bytes)], rights, flags, None)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(ErrorKind::WriteZero.into())
    }
}

/// Receives the next message; waits up to the socket's read timeout. `None` if the other end is
/// gone.
pub(super) fn receive(from: &UnixStream) -> io::Result<Option<Message>> {
    let mut bytes = [0; 2];
    let Received {
        count,
        descriptors,
        is_incomplete,
    } = rights::receive(from.as_fd(), &mut bytes)?;
    if is_incomplete {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    if count == 0 {
        return Ok(None);
    }
    let kind = match bytes[0] {
        1 => Some(Kind::RequestSockets),
        2 => Some(Kind::Announce),
        3 => Some(Kind::Offer),
        4 => Some(Kind::Accept),
        _ => None,
    };
    match (kind, QpnRange::new(bytes[1])) {
        (Some(kind), Some(part)) if count == bytes.len() && descriptors.len() <= MAX_SOCKETS => {
            Ok(Some(Message {
                kind,
                part,
                descriptors,
            }))
        }
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// The reader is at its end only if no descriptor of the writer is left.
    #[test]
    fn descriptors_of_a_message_with_too_many_are_closed() {
        let (mut reader, writer) = UnixStream::pair().expect("a pair");
        reader.set_nonblocking(true).expect("allowed");
        for count in [MAX_SOCKETS + 1, 253] {
            let (from, to) = UnixStream::pair().expect("a pair");
            let sockets: Vec<OwnedFd> = (0..count)
                .map(|_| writer.try_clone().expect("a descriptor").into())
                .collect();
            let part = QpnRange::new(3).expect("a part");
            send(&from, Kind::Announce, part, &sockets).expect("sent");
            drop(sockets);
            let error = receive(&to).expect_err("there are too many");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{count}");
        }
        drop(writer);
        assert_eq!(reader.read(&mut [0]).ok(), Some(0));
    }
}
