//! Offers of files between members, for what they share beside the port.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use roce_port::{Accepted, NotAccepted, Refusal, fork};
use roce_stack::QpnRange;
use roce_trust::{OwnUser, peer};

use super::message::{self, Kind};
use super::names::{self, SharedAddress};
use super::owned_names::OwnedNames;

/// The time to wait for the answer. The caller waits with its device locked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

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
) -> Result<Accepted, Refusal> {
    let stream = connect(&SharedAddress::new(to, interface).member(part))?;
    offer_over(stream, own, file)
}

/// Offers a file to the member at the other end of `stream`.
pub(super) fn offer_over(
    stream: UnixStream,
    own: QpnRange,
    file: BorrowedFd<'_>,
) -> Result<Accepted, Refusal> {
    let no_room = |_| NotAccepted::NoRoom;
    stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .map_err(no_room)?;
    fork::give_up_in_children(&stream).map_err(no_room)?;
    message::send(&stream, Kind::Offer, own, &[file]).map_err(|_| NotAccepted::Silent)?;
    match message::receive(&stream) {
        Ok(Some(answer)) if answer.kind == Kind::Accept => {
            let mut descriptors = answer.descriptors.into_iter();
            let (Some(descriptor), None) = (descriptors.next(), descriptors.next()) else {
                return Err(NotAccepted::NoRoom.into());
            };
            Ok(Accepted {
                connection: stream.into(),
                descriptor,
            })
        }
        Ok(_) | Err(_) => Err(Refusal {
            why: NotAccepted::Silent,
            witness: Some(stream.into()),
        }),
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
