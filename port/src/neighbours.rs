//! Other open devices of this user on this host.

use roce_stack::QpnRange;
use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Reaches the open devices on this host that share an address and UDP port 4791, if they belong to this
/// user, according to the kernel, and the address is one of this network namespace.
pub trait Neighbours {
    /// Whether the address is one of this host's, in the device's network namespace.
    fn is_here(&self, address: IpAddr) -> bool;

    /// Offers a file to the device whose QPs have the numbers of `part` at the address `to`. Waits for its answer
    /// for 2 ms at most, because others wait for the caller.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn offer(
        &mut self,
        to: IpAddr,
        part: QpnRange,
        file: BorrowedFd<'_>,
    ) -> Result<Offered, Refusal>;

    /// The answer that has come by the connection of an offer. Never waits.
    ///
    /// # Errors
    /// See [`Refusal`].
    fn answer(&mut self, connection: OwnedFd) -> Result<Offered, Refusal>;

    /// Hands all files that are offered to this device to `offers` from now on. Call it before the first
    /// address is activated.
    fn take_offers(&mut self, offers: Arc<dyn Offers>);
}

/// An offer that was not refused.
#[derive(Debug)]
pub enum Offered {
    /// It was accepted.
    Accepted(Accepted),
    /// There is no answer yet. It will come by this connection.
    Waiting(OwnedFd),
}

/// The answer of a device that has accepted an offer.
#[derive(Debug)]
pub struct Accepted {
    /// The other device closes it when it is gone, and notices when this end is closed.
    pub connection: OwnedFd,
    /// The descriptor that the other device gave in return.
    pub descriptor: OwnedFd,
}

/// An offer was not accepted.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub why: NotAccepted,
    /// A connection to the other device, which closes when that is gone, if there is one.
    pub witness: Option<OwnedFd>,
}

impl From<NotAccepted> for Refusal {
    fn from(why: NotAccepted) -> Self {
        Self { why, witness: None }
    }
}

/// Why an offer was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotAccepted {
    /// No device has the numbers at that address now; or the address is another host's.
    Nobody,
    /// The device belongs to another user.
    OtherUser,
    /// The device did not answer in time, or is of a version that knows no offers.
    Silent,
    /// The device, or this process, has no room or no descriptors left.
    NoRoom,
}

impl NotAccepted {
    /// The port's counter of devices that did not accept for this reason; `None` if it has none.
    pub const fn counter(self) -> Option<&'static str> {
        match self {
            Self::Nobody => None,
            Self::OtherUser => Some("lanes_other_user"),
            Self::Silent => Some("lanes_silent"),
            Self::NoRoom => Some("lanes_no_room"),
        }
    }

    /// The reason, in words that follow "because".
    pub const fn explain(self) -> &'static str {
        match self {
            Self::Nobody => "no device of this host has the address",
            Self::OtherUser => "the other process belongs to another user",
            Self::Silent => {
                "the other process did not answer in time, takes none, or has another version"
            }
            Self::NoRoom => "one of the processes has no memory or descriptors left for it",
        }
    }
}

/// Decides on files that other devices offer. Called by a thread of the port.
pub trait Offers: fmt::Debug + Send + Sync {
    /// Takes a file that was offered to this device at the address `at`, or returns `None`. The value that
    /// this returns is dropped when the other device is gone; the descriptor is sent to it.
    fn take(&self, at: IpAddr, file: OwnedFd) -> Option<(Box<dyn Any + Send>, OwnedFd)>;
}
