//! A process's membership in the group of one address.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use roce_stack::QpnRange;
use socket2::Socket;

use super::addressee::Addressee;
use super::keeper::{self, HeldSockets, Keeper};
use super::names::SharedAddress;
use super::services::{Announced, Services};
use super::{group, steer};
use crate::sys::options;

/// The number of received packets after which a process turns GRO on at its socket. It is the
/// maximum number of packets that one mixed bundle makes a process receive one by one. If the kernel
/// keeps joining packets for different members, about one bundle is lost in this number of packets.
const COALESCING_PAUSE: usize = 1024;

/// This process's membership in the group. Another process can become the member for this part
/// after this value is dropped.
#[derive(Debug)]
pub(crate) struct Member {
    shared: SharedAddress,
    part: QpnRange,
    own: Socket,
    held: HeldSockets,
    announced: Announced,
    /// The number of packets received since GRO was last turned on or off at `own` by this process.
    received_since_set: usize,
    /// Dropped last, because it holds the member's name.
    _keeper: Keeper,
}

impl Member {
    pub(super) fn new(
        shared: SharedAddress,
        part: QpnRange,
        own: Socket,
        held: HeldSockets,
        keeper: Keeper,
    ) -> Self {
        Self {
            shared,
            part,
            own,
            held,
            announced: Announced::default(),
            received_since_set: 0,
            _keeper: keeper,
        }
    }

    /// Returns the recipient of one of several packets that GRO has joined (a bundle). The kernel
    /// has steered the bundle by its first packet.
    pub(crate) fn recipient_of(&self, packet: &[u8], is_first: bool) -> Recipient {
        match Addressee::of(packet) {
            Addressee::Part(part) if part == self.part => Recipient::ThisProcess,
            Addressee::Part(part) if self.has_socket_of(part) => Recipient::AnotherMember,
            Addressee::Part(_) => Recipient::NoProcess,
            Addressee::Unknown => Recipient::ThisProcess,
            // The steering program has decided which process receives it.
            Addressee::Server if is_first => Recipient::ThisProcess,
            Addressee::Server => Recipient::AnotherMember,
        }
    }

    /// Whether this process holds a socket for this part. The socket may have no member.
    fn has_socket_of(&self, part: QpnRange) -> bool {
        usize::from(part.number()) < keeper::lock(&self.held).len()
    }

    /// Makes the kernel steer to this process the management datagrams of `services`, and no
    /// others.
    ///
    /// # Errors
    /// If the kernel refuses. It may steer some of the datagrams nevertheless.
    pub(crate) fn announce(&mut self, services: &Services) -> io::Result<()> {
        let wanted = services.at_address(self.shared.address);
        self.announced
            .update(&self.shared, self.part, wanted.as_deref())?;
        steer::update(&self.shared, self.own.as_fd())
    }

    /// Turns off GRO at all sockets of this address. The kernel has joined packets for different
    /// members, and steers a bundle by its first packet. A member that loses packets in every
    /// bundle might never make progress.
    ///
    /// Any sender can cause this with a single bundle, so it does not last: see
    /// [`Member::note_received`].
    pub(crate) fn pause_coalescing(&mut self) {
        self.received_since_set = 0;
        for socket in keeper::lock(&self.held).iter() {
            set_coalescing(socket.as_fd(), false);
        }
    }

    /// Counts received packets. After every [`COALESCING_PAUSE`] packets, turns GRO on at this
    /// process's socket, whether or not a member has turned it off. So the end of a pause depends on
    /// no other process, which may have ended, and an idle socket has nothing to wait for.
    pub(crate) fn note_received(&mut self, packets: usize) {
        self.received_since_set += packets;
        if self.received_since_set >= COALESCING_PAUSE {
            self.received_since_set = 0;
            set_coalescing(self.own.as_fd(), true);
        }
    }
}

fn set_coalescing(socket: BorrowedFd<'_>, on: bool) {
    // A kernel without this option joins no packets.
    let _ = options::set(socket, libc::SOL_UDP, libc::UDP_GRO, on.into());
}

impl Drop for Member {
    fn drop(&mut self) {
        // If this fails, requests for the announced services are lost for a while.
        let _ = self.announce(&Services::default());
        // Other members hold the socket, too. This fails only if the kernel is out of memory. In
        // that case, the socket fills up and stays full until another process takes this part.
        let _ = group::block_and_drain(self.own.as_fd());
    }
}

/// The process that a packet of a bundle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// This process.
    ThisProcess,
    /// Most likely another member. It has not received the packet.
    AnotherMember,
    /// No process.
    NoProcess,
}
