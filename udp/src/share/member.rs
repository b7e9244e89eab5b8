//! A process's place in the group of one address.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use roce_stack::QpnPart;
use socket2::Socket;

use super::group;
use super::keeper::{self, Held, Keeper};
use crate::sys::options;

/// The place; others can take it when this value is gone.
#[derive(Debug)]
pub(crate) struct Member {
    part: QpnPart,
    own: Socket,
    held: Held,
    /// Ends last: it has the name.
    _keeper: Keeper,
}

impl Member {
    pub(super) fn new(part: QpnPart, own: Socket, held: Held, keeper: Keeper) -> Self {
        Self {
            part,
            own,
            held,
            _keeper: keeper,
        }
    }

    /// Whose packets come in here.
    pub(crate) fn part(&self) -> QpnPart {
        self.part
    }

    /// Whether the group has, or had, a socket for QPs in this part.
    pub(crate) fn knows(&self, part: QpnPart) -> bool {
        usize::from(part.number()) < keeper::lock(&self.held).len()
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
        // Others hold the socket, too. It fails only without memory; then it fills up and
        // stays so until somebody takes this place.
        let _ = group::close_down(self.own.as_fd());
    }
}

/// The sockets, to be shared with the keeper.
pub(super) fn shared(sockets: Vec<OwnedFd>) -> Held {
    Arc::new(std::sync::Mutex::new(sockets))
}
