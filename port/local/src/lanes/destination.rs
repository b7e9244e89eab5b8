//! The devices that packets are sent to.

use crate::doorbell::Ringer;
use crate::ring::Sender;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_port::{Accepted, NotAccepted, Offered, Refusal};
use roce_stack::QpnRange;
use roce_wire::Qpn;
use std::collections::HashSet;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The pause before an offer to the successor of a device that has not answered.
pub(super) const AFTER_SILENCE: Duration = Duration::from_secs(10);
/// The number of reservations after which a sender looks whether the receiver is gone.
const LOOK_INTERVAL: u32 = 4096;
/// The most QPs that a lane remembers.
const MOST_QPS: usize = 4096;

/// A device that packets are sent to, and the address that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) part: QpnRange,
}

/// A lane to another device.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) ring: Sender,
    pub(super) doorbell: Ringer,
    /// Whether packets were committed since the last flush.
    pub(super) is_dirty: bool,
    /// Since when the ring has had no room.
    pub(super) full_since: Option<Instant>,
}

/// How packets get to a device that is there.
#[derive(Debug)]
pub(super) enum Link {
    Lane(Lane),
    /// The device has not answered the offer of this ring yet: packets wait.
    Offered {
        ring: Sender,
        since: Instant,
    },
    /// By the port inside.
    Port,
}

impl Link {
    #[inline]
    pub(super) fn lane(&self) -> Option<&Lane> {
        match self {
            Self::Lane(lane) => Some(lane),
            Self::Offered { .. } | Self::Port => None,
        }
    }

    #[inline]
    pub(super) fn lane_mut(&mut self) -> Option<&mut Lane> {
        match self {
            Self::Lane(lane) => Some(lane),
            Self::Offered { .. } | Self::Port => None,
        }
    }
}

/// A device that packets are sent to.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) peer: Peer,
    pub(super) link: Link,
    /// A connection that closes when the device is gone. Without one, it counts as gone after
    /// [`AFTER_SILENCE`].
    pub(super) connection: Option<OwnedFd>,
    /// When it was found.
    pub(super) since: Instant,
    /// The pause that would have come before the next offer, if nobody had been found.
    pub(super) pause: Duration,
    /// The number of packets and runs since the connection was looked at.
    pub(super) packets: u32,
    /// The QP that the last packet was for.
    pub(super) last_qp: Option<Qpn>,
    /// All such QPs, or some of them.
    pub(super) qps: HashSet<u32>,
}

impl Destination {
    /// Whether the device is gone.
    pub(super) fn has_ended(&self) -> bool {
        if self.has_closed_its_lane() {
            return true;
        }
        let Some(connection) = &self.connection else {
            return self.since.elapsed() > AFTER_SILENCE;
        };
        let mut fds = [PollFd::new(connection.as_fd(), PollFlags::empty())];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        polled.is_ok_and(|ready| ready > 0)
    }

    #[inline]
    fn has_closed_its_lane(&self) -> bool {
        self.link.lane().is_some_and(|lane| lane.ring.is_closed())
    }

    /// Whether to look whether the device is gone, before a packet to `qp`. Another process may have its part
    /// of the QPN space now, but draws new QPNs.
    #[inline]
    pub(super) fn must_look(&mut self, qp: Qpn, is_retransmission: bool) -> bool {
        self.packets += 1;
        let is_due = self.packets >= LOOK_INTERVAL || is_retransmission;
        if is_due || self.has_closed_its_lane() {
            self.packets = 0;
            return true;
        }
        if self.last_qp == Some(qp) {
            return false;
        }
        self.last_qp = Some(qp);
        if self.qps.len() >= MOST_QPS {
            self.qps.clear();
        }
        self.qps.insert(qp.get())
    }
}

impl Lane {
    /// Shows the receiver what was committed, and wakes it up if it sleeps. Returns whether it slept.
    #[inline]
    pub(super) fn show(&mut self) -> bool {
        if !std::mem::take(&mut self.is_dirty) {
            return false;
        }
        self.ring.show();
        let slept = self.ring.must_wake_receiver();
        if slept {
            self.doorbell.ring();
        }
        slept
    }
}

/// The link for a ring that was offered, and the connection to the device.
pub(super) fn settle(
    mut ring: Sender,
    since: Instant,
    offered: Offered,
) -> Result<(Link, OwnedFd), Refusal> {
    match offered {
        Offered::Waiting(connection) => Ok((Link::Offered { ring, since }, connection)),
        Offered::Accepted(Accepted {
            connection,
            descriptor,
        }) => {
            let doorbell = Ringer::new(descriptor).ok_or(NotAccepted::NoRoom)?;
            ring.note_accepted();
            let lane = Lane {
                ring,
                doorbell,
                is_dirty: false,
                full_since: None,
            };
            Ok((Link::Lane(lane), connection))
        }
    }
}
