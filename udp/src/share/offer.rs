//! Offers of files between members, for what they share beside the port.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_port::{Accepted, NotAccepted, Offered, Refusal, fork};
use roce_stack::QpnRange;
use roce_trust::{OwnUser, peer};

use super::message::{self, Kind};
use super::names::{self, SharedAddress};
use super::owned_names::OwnedNames;

/// The time to wait for the answer, in milliseconds. The caller waits with its device locked.
const ANSWER_MS: u8 = 2;

/// Offers a file to the member for `part` at `to`, on behalf of the member for `own`.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn offer(
    to: IpAddr,
    interface: u32,
    part: QpnRange,
    own: QpnRange,
    file: BorrowedFd<'_>,
) -> Result<Offered, Refusal> {
    let stream = connect(&SharedAddress::new(to, interface).member(part))?;
    offer_over(stream, own, file)
}

/// Offers a file to the member at the other end of `stream`.
pub(super) fn offer_over(
    stream: UnixStream,
    own: QpnRange,
    file: BorrowedFd<'_>,
) -> Result<Offered, Refusal> {
    let no_room = |_| NotAccepted::NoRoom;
    stream.set_nonblocking(true).map_err(no_room)?;
    fork::give_up_in_children(&stream).map_err(no_room)?;
    message::send(&stream, Kind::Offer, own, &[file]).map_err(|_| NotAccepted::Silent)?;
    let mut answer = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    // Without an answer, or after a signal, the caller asks again.
    let _ = poll(&mut answer, PollTimeout::from(ANSWER_MS));
    answer_over(stream)
}

/// The answer that has come by the connection of an offer.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn answer_over(stream: UnixStream) -> Result<Offered, Refusal> {
    match message::receive(&stream) {
        Ok(Some(answer)) if answer.kind == Kind::Accept => {
            let mut descriptors = answer.descriptors.into_iter();
            let (Some(descriptor), None) = (descriptors.next(), descriptors.next()) else {
                return Err(NotAccepted::NoRoom.into());
            };
            Ok(Offered::Accepted(Accepted {
                connection: stream.into(),
                descriptor,
            }))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Offered::Waiting(stream.into())),
        // A member that refuses closes the connection.
        Ok(_) | Err(_) => Err(NotAccepted::Silent.into()),
    }
}

/// Connects to the member with this name, if it belongs to this user.
fn connect(name: &str) -> Result<UnixStream, NotAccepted> {
    let user = OwnUser::now();
    let is_own = |stream: &UnixStream| peer(stream).is_ok_and(|peer| user.is(peer.user));
    match names::connect(name) {
        Ok(stream) if is_own(&stream) => return Ok(stream),
        Ok(_) => {}
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => {}
            ErrorKind::WouldBlock => return Err(NotAccepted::Silent),
            _ => return Err(NotAccepted::NoRoom),
        },
    }
    // Another user may have the name, so that this user's process has a variant of it.
    let variants = OwnedNames::new().variants();
    let Some(variant) = variants.of(name) else {
        return match names::is_connectable(name) {
            Ok(true) => Err(NotAccepted::OtherUser),
            _ => Err(NotAccepted::Nobody),
        };
    };
    match names::connect(variant) {
        Ok(stream) if is_own(&stream) => Ok(stream),
        _ => Err(NotAccepted::Nobody),
    }
}
