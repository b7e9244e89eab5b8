//! Relays a connection over RDMA to a child process, which holds one end of a socket pair.
//!
//! A relay sends from the start, but receives only once the child uses the connection or sends
//! something, or the parent has closed it. Until then the parent may use a connection that the child
//! merely inherited.

use crate::errno::{Errno, Outcome, check_size};
use crate::names::Names;
use crate::signals::Blocked;
use crate::socket::{Phase, Socket, lock, lock_at_exit};
use crate::{eventfd, hidden, link, poll_set, rdmacm, real};
use libc::pollfd;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

const BUFFER: usize = 1 << 16;

/// The relays of this process.
#[derive(Default)]
pub(crate) struct Relays {
    /// The relays' ends of the pairs, which forked children must close.
    pub(crate) ends: Vec<c_int>,
    /// The number of relays that receive.
    pub(crate) receiving: usize,
}

static RELAYS: Mutex<Relays> = Mutex::new(Relays {
    ends: Vec::new(),
    receiving: 0,
});
static ENDED: Condvar = Condvar::new();

/// Takes the lock that a fork holds.
pub(crate) fn lock_relays() -> MutexGuard<'static, Relays> {
    lock(&RELAYS)
}

/// Waits at exit until no relay receives.
pub(crate) fn wait_for_all() {
    let Some(mut relays) = lock_at_exit(&RELAYS) else {
        return;
    };
    while relays.receiving > 0 {
        relays = ENDED
            .wait(relays)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// Starts a relay, and returns the child's end.
pub(crate) fn start(socket: &Arc<Socket>, is_used: bool) -> Outcome<c_int> {
    if socket.phase() != Phase::Connected {
        return Err(Errno(libc::ENOTCONN));
    }
    let names = Names {
        domain: socket.domain,
        own: rdmacm::own_name(socket.rs())?,
        peer: rdmacm::peer_name(socket.rs())?,
    };
    let [end, of_child] = link::pair(libc::SOCK_STREAM)?;
    let named = names.bind(of_child);
    let wake = named.and_then(|()| eventfd::create()).inspect_err(|_| {
        hidden::close(end);
        hidden::close(of_child);
    })?;
    lock(&socket.relays).push(wake);
    // Counted before the thread runs, because this process may be about to exit.
    let receives = is_used || socket.fds.load(Ordering::Acquire) == 0;
    let mut relays = lock_relays();
    relays.ends.push(end);
    relays.receiving += usize::from(receives);
    drop(relays);
    let mut relay = Relay {
        socket: socket.clone(),
        end,
        wake,
        is_used,
        receives,
        is_hung_up: false,
        child_is_gone: false,
        to_child: Pipe::new(),
        to_peer: Pipe::new(),
    };
    let _blocked = Blocked::all();
    let _inside = crate::inside::Inside::enter();
    let thread = std::thread::Builder::new().name(String::from("roce-relay"));
    let started = thread.spawn(move || relay.run());
    started.map(|_| of_child).map_err(|_| {
        hidden::close(of_child);
        Errno(libc::EAGAIN)
    })
}

/// Buffered bytes of one direction.
struct Pipe {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the sender has sent its last byte.
    is_ended: bool,
    /// Whether the end was passed on to the receiver.
    is_shut: bool,
}

impl Pipe {
    fn new() -> Self {
        Self {
            bytes: vec![0; BUFFER].into(),
            start: 0,
            end: 0,
            is_ended: false,
            is_shut: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Fills the empty buffer.
    fn fill(&mut self, receive: impl FnOnce(&mut [u8]) -> Outcome<usize>) {
        match receive(&mut self.bytes) {
            Ok(0) => self.is_ended = true,
            Ok(count) => (self.start, self.end) = (0, count),
            Err(error) if error.is_again() || error.0 == libc::EINTR => {}
            Err(_) => self.is_ended = true,
        }
    }

    /// Sends buffered bytes. Returns `false` if the receiver is gone.
    fn drain(&mut self, send: impl FnOnce(&[u8]) -> Outcome<usize>) -> bool {
        match send(&self.bytes[self.start..self.end]) {
            Ok(count) => self.start += count,
            Err(error) if error.is_again() || error.0 == libc::EINTR => {}
            Err(_) => {
                self.start = self.end;
                self.is_ended = true;
                self.is_shut = true;
                return false;
            }
        }
        true
    }

    /// Returns `true` once, when the end has to be passed on to the receiver.
    fn take_end(&mut self) -> bool {
        self.is_ended && self.is_empty() && !std::mem::replace(&mut self.is_shut, true)
    }
}

struct Relay {
    socket: Arc<Socket>,
    end: c_int,
    wake: c_int,
    is_used: bool,
    receives: bool,
    /// Whether the child has closed its end. Unread bytes may remain.
    is_hung_up: bool,
    child_is_gone: bool,
    to_child: Pipe,
    to_peer: Pipe,
}

impl Relay {
    fn run(&mut self) {
        while !self.is_done() {
            if !self.receives && (self.is_used || self.socket.fds.load(Ordering::Acquire) == 0) {
                self.receives = true;
                lock_relays().receiving += 1;
            }
            let mut fds = self.poll_set();
            if rdmacm::poll(&mut fds, -1).is_err_and(|error| error.0 != libc::EINTR) {
                break;
            }
            self.step(fds.map(|fd| fd.revents));
        }
    }

    fn is_done(&self) -> bool {
        match self.child_is_gone {
            true => self.to_peer.is_empty(),
            false => self.to_child.is_shut && self.to_peer.is_shut,
        }
    }

    fn poll_set(&self) -> [pollfd; 3] {
        let wants = |pipe: &Pipe| pipe.is_empty() && !pipe.is_ended;
        let bits = |receives: bool, sends: bool| {
            (i16::from(receives) * libc::POLLIN) | (i16::from(sends) * libc::POLLOUT)
        };
        let of_peer = bits(
            self.receives && wants(&self.to_child),
            !self.to_peer.is_empty(),
        );
        let of_child = bits(wants(&self.to_peer), !self.to_child.is_empty());
        let entry =
            |fd, events, is_polled| poll_set::entry(if is_polled { fd } else { -1 }, events);
        [
            entry(self.socket.rs(), of_peer, of_peer != 0),
            entry(
                self.end,
                of_child,
                !(self.child_is_gone || self.is_hung_up && of_child == 0),
            ),
            entry(self.wake, libc::POLLIN, true),
        ]
    }

    fn step(&mut self, [of_peer, of_child, wake]: [i16; 3]) {
        if wake != 0 {
            eventfd::clear(self.wake);
        }
        let (rs, end) = (self.socket.rs(), self.end);
        self.is_hung_up |= of_child & (libc::POLLHUP | libc::POLLERR) != 0;
        if of_child != 0 && self.to_peer.is_empty() && !self.to_peer.is_ended {
            self.to_peer.fill(|room| read(end, room));
            self.is_used |= !self.to_peer.is_empty();
        }
        self.child_is_gone |= self.is_hung_up && self.to_peer.is_ended;
        if of_peer != 0 && self.receives && self.to_child.is_empty() && !self.to_child.is_ended {
            self.to_child.fill(|room| {
                // SAFETY: there is room for this many bytes.
                unsafe { rdmacm::receive(rs, room.as_mut_ptr().cast(), room.len(), 0) }
            });
        }
        self.pass_on(rs, end);
    }

    fn pass_on(&mut self, rs: c_int, end: c_int) {
        if !self.to_peer.is_empty() {
            let is_there = self.to_peer.drain(|bytes| {
                // SAFETY: the bytes can be read.
                unsafe { rdmacm::send(rs, bytes.as_ptr().cast(), bytes.len()) }
            });
            if !is_there {
                // The child's sends fail from now on.
                shutdown(end, libc::SHUT_RD);
            }
        }
        if !self.to_child.is_empty() {
            let is_there = self.to_child.drain(|bytes| write(end, bytes));
            self.child_is_gone |= !is_there;
        }
        if self.to_child.take_end() {
            shutdown(end, libc::SHUT_WR);
        }
        if !self.child_is_gone && self.to_peer.take_end() {
            // If the peer is gone, receiving reports it.
            let _ = rdmacm::shutdown(rs, libc::SHUT_WR);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        lock(&self.socket.relays).retain(|wake| *wake != self.wake);
        // Other children may have copies of the descriptor.
        shutdown(self.end, libc::SHUT_RDWR);
        // Closes the rsocket before `wait_for_all` can return.
        drop(std::mem::replace(
            &mut self.socket,
            Arc::new(Socket::new(0, true)),
        ));
        let mut relays = lock_relays();
        relays.ends.retain(|end| *end != self.end);
        relays.receiving -= usize::from(self.receives);
        hidden::close(self.end);
        hidden::close(self.wake);
        drop(relays);
        ENDED.notify_all();
    }
}

fn read(fd: c_int, room: &mut [u8]) -> Outcome<usize> {
    // SAFETY: there is room for this many bytes.
    let count = unsafe { real::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
    check_size(count).map(isize::cast_unsigned)
}

fn write(fd: c_int, bytes: &[u8]) -> Outcome<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes can be read.
    let count = unsafe { real::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    check_size(count).map(isize::cast_unsigned)
}

fn shutdown(fd: c_int, how: c_int) {
    // SAFETY: only numbers are passed. A repeated shutdown is harmless.
    unsafe { real::shutdown(fd, how) };
}
