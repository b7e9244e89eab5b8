//! The thread that looks after the UDP sockets of the process.

use super::*;
use crate::table::table;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use parking_lot::Mutex;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::thread;

/// The most messages of a socket that are handled before the next socket gets its turn.
const TURNS: usize = 64;

/// The thread, which starts with the first socket that needs it.
#[derive(Default)]
pub(crate) struct Service {
    started: Mutex<bool>,
    sockets: OnceLock<Epoll>,
}

impl Service {
    /// Looks after a UDP socket from now on, which is `datagram(fd)`.
    fn add(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut started = self.started.lock();
        let sockets = match self.sockets.get() {
            Some(sockets) => sockets,
            None => {
                let new = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
                self.sockets.get_or_init(|| new)
            }
        };
        let event = EpollEvent::new(EpollFlags::EPOLLIN, fd.as_raw_fd() as u64);
        sockets.add(fd, event)?;
        if !*started {
            start()?;
            *started = true;
        }
        Ok(())
    }

    /// Looks after a socket no more.
    pub(super) fn remove(&self, fd: BorrowedFd<'_>) {
        if let Some(sockets) = self.sockets.get() {
            // This fails if it never was looked after.
            let _ = sockets.delete(fd);
        }
    }

    fn run(&self) {
        let Some(sockets) = self.sockets.get() else {
            return;
        };
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let count = sockets.wait(&mut events, EpollTimeout::NONE).unwrap_or(0);
            for event in &events[..count] {
                let fd = RawFd::try_from(event.data()).unwrap_or(-1);
                if let Some(socket) = table().datagram(fd) {
                    socket.handle_udp(TURNS);
                }
            }
        }
    }
}

/// Starts the thread. It takes none of the program's signals, except those of its own faults: the
/// kernel ends a process whose fault is blocked without calling a handler.
fn start() -> Result<(), Errno> {
    let service = &table().service;
    let mut blocked = SigSet::all();
    let faults = [
        Signal::SIGBUS,
        Signal::SIGSEGV,
        Signal::SIGILL,
        Signal::SIGFPE,
    ];
    faults.into_iter().for_each(|fault| blocked.remove(fault));
    // Threads inherit the mask.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = thread::Builder::new().name("rsocket-udp".into());
    let started = thread.spawn(|| service.run());
    before.thread_set_mask()?;
    started.map(drop).map_err(|_| Errno::EAGAIN)
}

impl Datagram {
    /// The socket has a port: notes its address, and lets the thread look after it.
    pub(super) fn serve(&self, state: &mut State) -> Result<(), Error> {
        state.bound = Some(self.udp.local()?);
        state.local = state.bound;
        Ok(table().service.add(self.udp.borrow())?)
    }
}
