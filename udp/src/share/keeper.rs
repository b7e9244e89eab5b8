//! The thread that answers for a member of a group.
//!
//! It sends the group's sockets to members that ask, and accepts the sockets that new members add.
//! When another member is gone, the thread closes that member's socket to all packets and empties
//! it, because this process may hold the only descriptor of the socket.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use roce_stack::QpnRange;

use super::group;
use super::message::{self, Kind};
use super::names::{self, Place};
use super::steer;
use super::table::Table;

/// How many times to try to take the name of a member that is gone. A process that ends closes its
/// descriptors one by one.
const CLEANING_TRIES: u32 = 500;
const CLEANING_EVERY_MS: u8 = 10;

/// The pause before another attempt to accept a new member while no file descriptor is left.
const FULL: Duration = Duration::from_millis(20);

/// A group's sockets, starting with the first.
pub(super) type Held = Arc<Mutex<Vec<OwnedFd>>>;

/// Locks the sockets, even if a thread panicked while it held the lock.
pub(super) fn lock(held: &Mutex<Vec<OwnedFd>>) -> MutexGuard<'_, Vec<OwnedFd>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to another member.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    /// The member at the other end, once it has introduced itself.
    pub(super) part: Option<QpnRange>,
}

/// A handle to the thread that answers for a member. The thread ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread. It answers connections to `listener` from now on.
    pub(super) fn start(
        place: Place,
        part: QpnRange,
        listener: UnixListener,
        peers: Vec<Peer>,
        held: Held,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        for peer in &peers {
            peer.stream.set_nonblocking(true)?;
        }
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let stop = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        let work = Work {
            place,
            part,
            listener,
            peers,
            held,
            gone: Vec::new(),
        };
        let until = Arc::clone(&stop);
        // The thread inherits this mask: none of the application's signals may be delivered to it.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let thread = std::thread::Builder::new()
            .name("roce-share".to_owned())
            .spawn(move || work.run(&until));
        before.thread_set_mask()?;
        Ok(Self {
            stop,
            thread: Some(thread?),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    place: Place,
    part: QpnRange,
    listener: UnixListener,
    peers: Vec<Peer>,
    held: Held,
    /// Members that are gone and not yet cleaned up after.
    gone: Vec<Gone>,
}

impl Work {
    fn run(mut self, stop: &EventFd) {
        while let Some(ready) = self.wait(stop) {
            self.clean_up();
            if ready.newcomer {
                self.accept();
            }
            // In descending order, because some are removed.
            for &index in ready.peers.iter().rev() {
                self.hear(index);
            }
        }
    }

    /// Waits until there is work; `None` if the thread is to end.
    fn wait(&self, stop: &EventFd) -> Option<Ready> {
        let fds = [stop.as_fd(), self.listener.as_fd()];
        let streams = self.peers.iter().map(|peer| peer.stream.as_fd());
        let mut polled: Vec<PollFd<'_>> = fds
            .into_iter()
            .chain(streams)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let timeout = if self.gone.is_empty() {
            PollTimeout::NONE
        } else {
            PollTimeout::from(CLEANING_EVERY_MS)
        };
        // An interrupted poll reports nothing as ready.
        let _ = poll(&mut polled, timeout);
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        if is_ready(&polled[0]) {
            return None;
        }
        let peers = polled[2..].iter().enumerate();
        Some(Ready {
            newcomer: is_ready(&polled[1]),
            peers: peers
                .filter_map(|(index, fd)| is_ready(fd).then_some(index))
                .collect(),
        })
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if message::is_ours(&stream) && stream.set_nonblocking(true).is_ok() {
                        self.peers.push(Peer { stream, part: None });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Too many files are open: leave the new member in the backlog.
                Err(_) => return std::thread::sleep(FULL),
            }
        }
    }

    /// Handles a message from a peer.
    fn hear(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        match message::receive(&peer.stream) {
            Ok(Some(said)) => {
                peer.part = Some(said.part);
                let mut held = lock(&self.held);
                match said.kind {
                    Kind::Ask => {
                        // A member that gets no answer asks another one.
                        let _ = message::send(&peer.stream, Kind::Here, self.part, &held);
                    }
                    Kind::Here if said.sockets.len() > held.len() => *held = said.sockets,
                    Kind::Here => {}
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(None) | Err(_) => {
                let peer = self.peers.swap_remove(index);
                self.gone.extend(peer.part.map(Gone::new));
            }
        }
    }

    /// Closes and empties the sockets of members that are gone, and steers their datagrams to
    /// others.
    fn clean_up(&mut self) {
        let (place, held) = (self.place, lock(&self.held));
        self.gone.retain_mut(|gone| {
            let Some(socket) = held.get(usize::from(gone.part.number())) else {
                return false;
            };
            gone.tries -= 1;
            gone.is_closed = gone.is_closed || close_after(&place, gone.part, socket);
            let is_done = gone.is_closed && steer_past(&place, gone.part, socket);
            !is_done && gone.tries > 0
        });
    }
}

/// A member that is gone.
struct Gone {
    part: QpnRange,
    /// Attempts left.
    tries: u32,
    /// Whether its socket is closed to packets.
    is_closed: bool,
}

impl Gone {
    fn new(part: QpnRange) -> Self {
        Self {
            part,
            tries: CLEANING_TRIES,
            is_closed: false,
        }
    }
}

/// Closes a socket whose owner is gone. It holds the member's name meanwhile, so that no process
/// can take the place and its socket.
fn close_after(place: &Place, part: QpnRange, socket: &OwnedFd) -> bool {
    let Ok(_name) = names::hold(&place.member(part)) else {
        return false;
    };
    // This fails only if the kernel is out of memory. In that case, the socket fills up and stays
    // full.
    let _ = group::close_down(socket.as_fd());
    true
}

/// Attaches a new steering program once nothing is announced for the part any more. A process that
/// has taken the part meanwhile announces for itself.
fn steer_past(place: &Place, part: QpnRange, socket: &OwnedFd) -> bool {
    let is_forgotten = Table::read(place).is_ok_and(|table| !table.knows(part));
    is_forgotten && steer::follow(place, socket.as_fd()).is_ok()
}

struct Ready {
    newcomer: bool,
    /// Indices of peers, ascending.
    peers: Vec<usize>,
}
