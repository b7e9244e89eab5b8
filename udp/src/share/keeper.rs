//! The thread that speaks for a member of a group.
//!
//! It hands the group's sockets to those who ask, takes those that newcomers add, and
//! notices when another member is gone: then it closes the socket of that one to all
//! packets, as it may hold the only descriptor, and empties it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, SigmaskHow};
use roce_stack::QpnPart;

use super::group;
use super::message::{self, Kind};
use super::names::{self, Place};
use super::table::{self, Table};

/// A member that is gone loses its descriptors one by one. How often its name is tried.
const CLEANING_TRIES: u32 = 500;
const CLEANING_EVERY_MS: u8 = 10;

/// How long to leave newcomers waiting who can't be let in.
const FULL: Duration = Duration::from_millis(20);

/// A group's sockets, from the first on.
pub(super) type Held = Arc<Mutex<Vec<OwnedFd>>>;

/// The sockets, whatever happened to another thread that had them.
pub(super) fn lock(held: &Mutex<Vec<OwnedFd>>) -> MutexGuard<'_, Vec<OwnedFd>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to another member.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    /// Which one it is, once it has said so.
    pub(super) part: Option<QpnPart>,
}

/// The thread; it ends with this value.
#[derive(Debug)]
pub(super) struct Keeper {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it. Who is at `listener` is answered from now on.
    pub(super) fn start(
        place: Place,
        part: QpnPart,
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
        // Threads inherit the mask: none of the application's signals may land here.
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
    part: QpnPart,
    listener: UnixListener,
    peers: Vec<Peer>,
    held: Held,
    /// Members that are gone, and what is to be cleaned up after them.
    gone: Vec<Gone>,
}

impl Work {
    fn run(mut self, stop: &EventFd) {
        while let Some(ready) = self.wait(stop) {
            self.clean_up();
            if ready.newcomer {
                self.accept();
            }
            // From the last on, as some are taken out.
            for &index in ready.peers.iter().rev() {
                self.hear(index);
            }
        }
    }

    /// Waits until there is something to do; nothing if it is time to end.
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
        // Interrupted means that nothing is ready.
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
                // Too many files are open, and the newcomer stays at the door.
                Err(_) => return std::thread::sleep(FULL),
            }
        }
    }

    /// Takes what a peer says.
    fn hear(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        match message::receive(&peer.stream) {
            Ok(Some(said)) => {
                peer.part = Some(said.part);
                let mut held = lock(&self.held);
                match said.kind {
                    Kind::Ask => {
                        // Who gets no answer asks another.
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

    /// Closes and empties the sockets of those who are gone, and steers to others what they
    /// took.
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
    part: QpnPart,
    /// How often to try yet to clean up after it.
    tries: u32,
    /// Its socket takes nothing any more.
    is_closed: bool,
}

impl Gone {
    fn new(part: QpnPart) -> Self {
        Self {
            part,
            tries: CLEANING_TRIES,
            is_closed: false,
        }
    }
}

/// Closes a socket whose owner is gone. Whoever has the name of a member has its socket, so
/// it is taken meanwhile: nobody can become that member.
fn close_after(place: &Place, part: QpnPart, socket: &OwnedFd) -> bool {
    let Ok(_name) = names::hold(&place.member(part)) else {
        return false;
    };
    // It fails only without memory; then the socket fills up, and stays so.
    let _ = group::close_down(socket.as_fd());
    true
}

/// Steers anew, once nothing is announced for the part any more. (If somebody has taken the
/// part meanwhile, it announces for itself.)
fn steer_past(place: &Place, part: QpnPart, socket: &OwnedFd) -> bool {
    let is_forgotten = Table::read(place).is_ok_and(|table| !table.knows(part));
    is_forgotten && table::follow(place, socket.as_fd()).is_ok()
}

struct Ready {
    newcomer: bool,
    /// Indices, ascending.
    peers: Vec<usize>,
}
