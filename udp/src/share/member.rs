//! A process's place in the group of one address.

use std::io;
use std::os::fd::AsFd;

use roce_stack::QpnPart;
use socket2::Socket;

use super::addressee::Addressee;
use super::keeper::{self, Held, Keeper};
use super::names::Place;
use super::services::{Announced, Services};
use super::{group, table};
use crate::sys::options;

/// The place; others can take it when this value is gone.
#[derive(Debug)]
pub(crate) struct Member {
    place: Place,
    part: QpnPart,
    own: Socket,
    held: Held,
    announced: Announced,
    /// Ends last: it has the name.
    _keeper: Keeper,
}

impl Member {
    pub(super) fn new(
        place: Place,
        part: QpnPart,
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

    /// Whether a packet of a bundle is for this process; the kernel has steered the bundle by
    /// its first one.
    pub(crate) fn gets(&self, packet: &[u8], is_first: bool) -> Gets {
        match Addressee::of(packet) {
            Addressee::Part(part) if part == self.part => Gets::Yes,
            Addressee::Part(part) if self.knows(part) => Gets::AnotherMember,
            Addressee::Part(_) => Gets::Nobody,
            Addressee::Unknown => Gets::Yes,
            // Who takes it, the kernel's program knows.
            Addressee::Server if is_first => Gets::Yes,
            Addressee::Server => Gets::AnotherMember,
        }
    }

    /// Whether the group has, or had, a socket for QPs in this part.
    fn knows(&self, part: QpnPart) -> bool {
        usize::from(part.number()) < keeper::lock(&self.held).len()
    }

    /// From now on these management datagrams are steered to this process, and no others.
    ///
    /// # Errors
    /// If the kernel refuses. Some may be steered all the same then.
    pub(crate) fn announce(&mut self, services: &Services) -> io::Result<()> {
        let wanted = services.at(self.place.address);
        self.announced
            .say(&self.place, self.part, wanted.as_deref())?;
        table::follow(&self.place, self.own.as_fd())
    }

    /// From now on the kernel joins no packets of this address: it has joined some that
    /// were for different members, and steers a bundle by its first. What the others miss
    /// again and again they could miss for ever.
    pub(crate) fn stop_coalescing(&self) {
        for socket in keeper::lock(&self.held).iter() {
            // A kernel that has no such option joins nothing.
            let _ = options::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 0);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // If that fails, requests for what was announced here come to nobody for a while.
        let _ = self.announce(&Services::default());
        // Others hold the socket, too. It fails only without memory; then it fills up and
        // stays so until somebody takes this place.
        let _ = group::close_down(self.own.as_fd());
    }
}

/// Who gets a packet of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gets {
    /// This process.
    Yes,
    /// Most likely another one, which has not got it.
    AnotherMember,
    /// Nobody.
    Nobody,
}
