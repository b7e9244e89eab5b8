//! Relays a connection over RDMA to a child process, which has one end of a pair of sockets.
//!
//! A relay that nobody needs yet sends, but does not receive: the parent may go on using the
//! connection that a child happens to have inherited. It receives once the child uses the connection,
//! sends something, or is the only process that has not closed it.

use crate::errno::{Errno, Outcome, check, check_size};
use crate::names::Names;
use crate::signals::Blocked;
use crate::socket::{Phase, Socket, lock, lock_at_exit};
use crate::{hidden, link, rdmacm, real};
use libc::pollfd;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

const BUFFER: usize = 1 << 16;

/// The relays of this process.
#[derive(Default)]
pub(crate) struct Relays {
    /// Their ends, which forked children must close.
    pub(crate) ends: Vec<c_int>,
    /// How many of them receive.
    pub(crate) receiving: usize,
}

static RELAYS: Mutex<Relays> = Mutex::new(Relays {
    ends: Vec::new(),
    receiving: 0,
});
static ENDED: Condvar = Condvar::new();

/// The lock that a fork holds.
pub(crate) fn relays() -> MutexGuard<'static, Relays> {
    lock(&RELAYS)
}

/// Waits until no child needs this process any more.
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
    names.bind(of_child)?;
    // SAFETY: only numbers are passed.
    let wake = check(hidden::hide(unsafe {
        real::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)
    }))?;
    lock(&socket.relays).push(wake);
    // Counted here: the process may be about to end.
    let receives = is_used || socket.fds.load(Ordering::Acquire) == 0;
    let mut relays = relays();
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
    started.map(|_| of_child).map_err(|_| Errno(libc::EAGAIN))
}

/// Bytes in one direction.
struct Pipe {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the sender has sent its last byte.
    is_ended: bool,
    /// Whether the receiver was told.
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

    /// Sends what is there. `false` if the receiver is gone.
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

    /// Whether the receiver is to be told of the end now.
    fn ends(&mut self) -> bool {
        self.is_ended && self.is_empty() && !std::mem::replace(&mut self.is_shut, true)
    }
}

struct Relay {
    socket: Arc<Socket>,
    end: c_int,
    wake: c_int,
    is_used: bool,
    receives: bool,
    /// Whether the child has closed its end; there may be bytes left.
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
                relays().receiving += 1;
            }
            let mut fds = self.interest();
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

    fn interest(&self) -> [pollfd; 3] {
        let wants = |pipe: &Pipe| pipe.is_empty() && !pipe.is_ended;
        let bits = |receives: bool, sends: bool| {
            (i16::from(receives) * libc::POLLIN) | (i16::from(sends) * libc::POLLOUT)
        };
        let of_peer = bits(
            self.receives && wants(&self.to_child),
            !self.to_peer.is_empty(),
        );
        let of_child = bits(wants(&self.to_peer), !self.to_child.is_empty());
        let entry = |fd, events, is_waited_for| pollfd {
            fd: if is_waited_for { fd } else { -1 },
            events,
            revents: 0,
        };
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
            self.clear_wake();
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
        if self.to_child.ends() {
            shutdown(end, libc::SHUT_WR);
        }
        if !self.child_is_gone && self.to_peer.ends() {
            // The peer may be gone, which receiving tells.
            let _ = rdmacm::shutdown(rs, libc::SHUT_WR);
        }
    }

    fn clear_wake(&self) {
        let mut count = 0_u64;
        // SAFETY: there is room for the count.
        unsafe { real::read(self.wake, (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        lock(&self.socket.relays).retain(|wake| *wake != self.wake);
        // Other children may have copies of the descriptor.
        shutdown(self.end, libc::SHUT_RDWR);
        // The peer must see the end before this process may.
        drop(std::mem::replace(
            &mut self.socket,
            Arc::new(Socket::new(0, true)),
        ));
        let mut relays = relays();
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
    // SAFETY: only numbers are passed. A socket that is shut already is as well.
    unsafe { real::shutdown(fd, how) };
}
