//! A process's place in the group of one address.

use std::io;
use std::os::fd::AsFd;

use roce_stack::QpnRange;
use socket2::Socket;

use super::addressee::Addressee;
use super::keeper::{self, Held, Keeper};
use super::names::Place;
use super::services::{Announced, Services};
use super::{group, steer};
use crate::sys::options;

/// This process's place in the group. Other processes can take the place once this value is
/// dropped.
#[derive(Debug)]
pub(crate) struct Member {
    place: Place,
    part: QpnRange,
    own: Socket,
    held: Held,
    announced: Announced,
    /// Dropped last, because it holds the name.
    _keeper: Keeper,
}

impl Member {
    pub(super) fn new(
        place: Place,
        part: QpnRange,
        own: Socket,
        held: Held,
        keeper: Keeper,
    ) -> Self {
        Self {
            place,
            part,
            own,
            held,
            announced: Announced::default(),
            _keeper: keeper,
        }
    }

    /// Which process a packet of a bundle is for. The kernel has steered the bundle by its first
    /// packet.
    pub(crate) fn gets(&self, packet: &[u8], is_first: bool) -> Gets {
        match Addressee::of(packet) {
            Addressee::Part(part) if part == self.part => Gets::Yes,
            Addressee::Part(part) if self.knows(part) => Gets::AnotherMember,
            Addressee::Part(_) => Gets::Nobody,
            Addressee::Unknown => Gets::Yes,
            // The kernel's program decides which process takes it.
            Addressee::Server if is_first => Gets::Yes,
            Addressee::Server => Gets::AnotherMember,
        }
    }

    /// Whether the group has or had a socket for QPs in this part.
    fn knows(&self, part: QpnRange) -> bool {
        usize::from(part.number()) < keeper::lock(&self.held).len()
    }

    /// Makes the kernel steer to this process the management datagrams of `services`, and no
    /// others.
    ///
    /// # Errors
    /// If the kernel refuses. It may steer some of them all the same.
    pub(crate) fn announce(&mut self, services: &Services) -> io::Result<()> {
        let wanted = services.at(self.place.address);
        self.announced
            .say(&self.place, self.part, wanted.as_deref())?;
        steer::follow(&self.place, self.own.as_fd())
    }

    /// Turns off GRO at all sockets of this address. The kernel has joined packets for different
    /// members, and steers a bundle by its first packet. Members that lose packets in every bundle
    /// might never make progress.
    pub(crate) fn stop_coalescing(&self) {
        for socket in keeper::lock(&self.held).iter() {
            // A kernel without this option joins nothing.
            let _ = options::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 0);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // If this fails, requests for the announced services are lost for a while.
        let _ = self.announce(&Services::default());
        // Other members hold the socket, too. This fails only if the kernel is out of memory. In
        // that case, the socket fills up and stays full until another process takes this place.
        let _ = group::close_down(self.own.as_fd());
    }
}

/// Which process gets a packet of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gets {
    /// This process.
    Yes,
    /// Another member, most likely. That member has not received the packet.
    AnotherMember,
    /// No process.
    Nobody,
}
