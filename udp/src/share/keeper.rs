//! The thread that answers for a member of a group.
//!
//! It sends the group's sockets to members that ask, and accepts the sockets that new members add.
//! When another member is gone, the thread makes that member's socket accept no packets and empties
//! it, because this process may hold the only descriptor of the socket.

use std::any::Any;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use roce_port::{Offers, fork};
use roce_stack::QpnRange;
use roce_trust::{OwnUser, peer};

use super::group;
use super::message::{self, Kind};
use super::names::SharedAddress;
use super::owned_names::OwnedNames;
use super::steer;
use super::table::Table;

/// The maximum number of attempts to take the name of a member that is gone. A process that ends
/// closes its descriptors one by one.
const CLEANUP_ATTEMPTS: u32 = 500;
const CLEANUP_INTERVAL_MS: u8 = 10;

/// The pause before another attempt to accept a new member while no file descriptor is left.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The maximum number of connections to accept before the thread handles messages, and ends if it
/// is to end.
const MAX_ACCEPTS: u32 = 64;

/// A group's sockets, starting with the first.
pub(super) type HeldSockets = Arc<Mutex<Vec<OwnedFd>>>;

/// Locks the sockets, even if a thread panicked while it held the lock.
pub(super) fn lock(held: &Mutex<Vec<OwnedFd>>) -> MutexGuard<'_, Vec<OwnedFd>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to another member.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    /// The part of the member at the other end, after its first message.
    pub(super) part: Option<QpnRange>,
    /// What the member has offered and this one has accepted.
    pub(super) accepted: Option<Box<dyn Any + Send>>,
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
        shared: SharedAddress,
        part: QpnRange,
        listener: UnixListener,
        peers: Vec<Peer>,
        held: HeldSockets,
        offers: Option<Arc<dyn Offers>>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        for peer in &peers {
            peer.stream.set_nonblocking(true)?;
        }
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let stop = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        let keeper = KeeperThread {
            shared,
            part,
            listener,
            peers,
            held,
            offers,
            gone: Vec::new(),
            user: OwnUser::now(),
        };
        let until = Arc::clone(&stop);
        // The new thread inherits this mask, so that it receives none of the application's signals.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let thread = std::thread::Builder::new()
            .name("roce-share".to_owned())
            .spawn(move || keeper.run(&until));
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

pub(super) struct KeeperThread {
    shared: SharedAddress,
    part: QpnRange,
    listener: UnixListener,
    peers: Vec<Peer>,
    held: HeldSockets,
    /// What is offered to the member goes there.
    offers: Option<Arc<dyn Offers>>,
    /// Members that are gone and whose sockets are not cleaned up yet.
    gone: Vec<Gone>,
    /// The user whose processes it answers.
    user: OwnUser,
}

impl KeeperThread {
    fn run(mut self, stop: &EventFd) {
        while let Some(ready) = self.wait(stop) {
            self.handle(&ready);
        }
    }

    fn handle(&mut self, ready: &Ready) {
        self.clean_up();
        if ready.has_connection {
            self.accept();
        }
        // In descending order, because `handle_message` may remove the peer.
        for &index in ready.peers.iter().rev() {
            self.handle_message(index);
        }
    }

    /// Waits until a descriptor is ready or a clean-up is due. Returns `None` if the thread is to
    /// end.
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
            PollTimeout::from(CLEANUP_INTERVAL_MS)
        };
        // An interrupted poll reports nothing as ready.
        let _ = poll(&mut polled, timeout);
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(false);
        if is_ready(&polled[0]) {
            return None;
        }
        let peers = polled[2..].iter().enumerate();
        Some(Ready {
            has_connection: is_ready(&polled[1]),
            peers: peers
                .filter_map(|(index, fd)| is_ready(fd).then_some(index))
                .collect(),
        })
    }

    /// Accepts waiting connections, and closes those of other users. Leaves some of them if there
    /// are many, because another user may connect faster than this thread accepts.
    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTS {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let is_ready = stream.set_nonblocking(true).is_ok()
                        && fork::give_up_in_children(&stream).is_ok();
                    if is_ready && peer(&stream).is_ok_and(|peer| self.user.is(peer.user)) {
                        self.peers.push(Peer {
                            stream,
                            part: None,
                            accepted: None,
                        });
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Too many files are open, so leave the new member in the backlog.
                Err(_) => return std::thread::sleep(ACCEPT_RETRY_INTERVAL),
            }
        }
    }

    /// Handles a message from a peer.
    fn handle_message(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        match message::receive(&peer.stream) {
            Ok(Some(message)) => {
                let mut held = lock(&self.held);
                // The connection of an offer is another one than that by which the member is known.
                let is_offer = message.kind == Kind::Offer;
                peer.part = (!is_offer).then_some(message.part);
                match message.kind {
                    Kind::Offer => {
                        drop(held);
                        self.answer_offer(index, message.descriptors);
                    }
                    Kind::RequestSockets => {
                        // A member that gets no answer asks another one.
                        let _ = message::send(&peer.stream, Kind::Announce, self.part, &held);
                    }
                    Kind::Announce if message.descriptors.len() > held.len() => {
                        *held = message.descriptors;
                    }
                    Kind::Announce | Kind::Accept => {}
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(None) | Err(_) => {
                let peer = self.peers.swap_remove(index);
                self.gone.extend(peer.part.map(Gone::new));
            }
        }
    }

    /// Accepts what a peer has offered, or ends the connection.
    fn answer_offer(&mut self, index: usize, descriptors: Vec<OwnedFd>) {
        let peer = &mut self.peers[index];
        let mut files = descriptors.into_iter();
        let accepted = match (&self.offers, files.next(), files.next()) {
            (Some(offers), Some(file), None) if peer.accepted.is_none() => {
                offers.take(self.shared.address, file)
            }
            _ => None,
        };
        let answered = accepted.and_then(|(value, descriptor)| {
            peer.accepted = Some(value);
            message::send(&peer.stream, Kind::Accept, self.part, &[descriptor]).ok()
        });
        if answered.is_none() {
            self.peers.swap_remove(index);
        }
    }

    /// Makes the sockets of members that are gone accept nothing, empties them, and steers these
    /// members' management datagrams to other members.
    fn clean_up(&mut self) {
        let (shared, held) = (self.shared, lock(&self.held));
        self.gone.retain_mut(|gone| {
            let Some(socket) = held.get(usize::from(gone.part.number())) else {
                return false;
            };
            gone.attempts_left -= 1;
            gone.is_closed = gone.is_closed || close_socket_of(&shared, gone.part, socket);
            let is_done = gone.is_closed && stop_steering_to(&shared, gone.part, socket);
            !is_done && gone.attempts_left > 0
        });
    }
}

/// A member that is gone.
struct Gone {
    part: QpnRange,
    /// Attempts left to take the member's name and to update the steering.
    attempts_left: u32,
    /// Whether the socket accepts no packets any more.
    is_closed: bool,
}

impl Gone {
    fn new(part: QpnRange) -> Self {
        Self {
            part,
            attempts_left: CLEANUP_ATTEMPTS,
            is_closed: false,
        }
    }
}

/// Makes the socket of a member that is gone accept no packets. Holds the member's name meanwhile,
/// so that no process can take the part and its socket. Returns `false`, without an effect, if a
/// process still has the name.
fn close_socket_of(shared: &SharedAddress, part: QpnRange, socket: &OwnedFd) -> bool {
    let Ok(_name) = OwnedNames::new().hold(&shared.member(part)) else {
        return false;
    };
    // This fails only if the kernel is out of memory. In that case, the socket fills up and stays
    // full.
    let _ = group::block_and_drain(socket.as_fd());
    true
}

/// Attaches a new steering program if no name announces anything for the part any more. A process
/// that has taken the part meanwhile attaches a program itself. Returns whether a program was
/// attached.
fn stop_steering_to(shared: &SharedAddress, part: QpnRange, socket: &OwnedFd) -> bool {
    let is_withdrawn = Table::read(shared).is_ok_and(|table| !table.mentions(part));
    is_withdrawn && steer::update(shared, socket.as_fd()).is_ok()
}

/// For other processes that misbehave.
#[cfg(any(test, fuzzing))]
impl KeeperThread {
    /// The thread's state, without a thread.
    pub(super) fn without_thread(
        shared: SharedAddress,
        part: QpnRange,
        listener: UnixListener,
        held: HeldSockets,
        offers: Option<Arc<dyn Offers>>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            shared,
            part,
            listener,
            peers: Vec::new(),
            held,
            offers,
            gone: Vec::new(),
            user: OwnUser::now(),
        })
    }

    /// Accepts connections, and handles one message of each peer that has sent one.
    pub(super) fn handle_all(&mut self) {
        let ready = Ready {
            has_connection: true,
            peers: (0..self.peers.len()).collect(),
        };
        self.handle(&ready);
    }
}

struct Ready {
    has_connection: bool,
    /// Indices of peers, ascending.
    peers: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;
    use std::net::IpAddr;

    /// The number of peers that a thread of `user` has, after this process has connected to it.
    fn peers_after_connecting(user: OwnUser) -> usize {
        let name = format!("{}/keeper/{}/{user:?}", names::PREFIX, std::process::id());
        let listener = names::listen(&name).expect("nobody else has the name");
        let shared = SharedAddress::new(IpAddr::from([127, 0, 0, 1]), 1);
        let held = HeldSockets::default();
        let thread = KeeperThread::without_thread(shared, QpnRange::FIRST, listener, held, None);
        let mut thread = KeeperThread {
            user,
            ..thread.expect("a socket")
        };
        let _stream = names::connect(&name).expect("it listens");
        thread.accept();
        thread.peers.len()
    }

    #[test]
    fn only_processes_of_the_same_user_become_peers() {
        let own = OwnUser::now().id();
        assert_eq!(peers_after_connecting(OwnUser::new(own, None)), 1);
        assert_eq!(peers_after_connecting(OwnUser::new(own + 1, None)), 0);
        assert_eq!(peers_after_connecting(OwnUser::new(own, Some(own))), 0);
    }
}
