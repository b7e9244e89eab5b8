//! The thread that serves the process's UDP sockets.

use super::*;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use parking_lot::Mutex;
use roce_trust::fork::PerProcess;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::thread;

/// Maximum number of messages of a socket before the next socket gets its turn.
const TURNS: usize = 64;

/// The thread, which starts with the first socket that needs it.
#[derive(Default)]
struct Service {
    /// By descriptor.
    sockets: Mutex<BTreeMap<RawFd, Weak<Datagram>>>,
    started: Mutex<bool>,
    ready: OnceLock<Epoll>,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

/// Stops serving a UDP socket.
pub(super) fn remove(fd: BorrowedFd<'_>) {
    if let Some(service) = SERVICE.existing() {
        service.remove(fd);
    }
}

impl Service {
    /// Starts serving the UDP socket of `socket`.
    fn add(&'static self, socket: &Datagram) -> Result<(), Errno> {
        let mut started = self.started.lock();
        let ready = match self.ready.get() {
            Some(ready) => ready,
            None => {
                let new = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
                self.ready.get_or_init(|| new)
            }
        };
        let fd = socket.fd();
        let event = EpollEvent::new(EpollFlags::EPOLLIN, fd as u64);
        ready.add(socket.udp.borrow(), event)?;
        self.sockets.lock().insert(fd, socket.this.clone());
        if !*started {
            self.start()?;
            *started = true;
        }
        Ok(())
    }

    fn remove(&self, fd: BorrowedFd<'_>) {
        if let Some(ready) = self.ready.get() {
            // Fails if the socket was never added.
            let _ = ready.delete(fd);
        }
        self.sockets.lock().remove(&fd.as_raw_fd());
    }

    /// Starts the thread. It blocks all signals except those of its own faults: the kernel kills a
    /// process without calling a handler if the signal of a fault is blocked.
    fn start(&'static self) -> Result<(), Errno> {
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
        let started = thread.spawn(|| self.run());
        before.thread_set_mask()?;
        started.map(drop).map_err(|_| Errno::EAGAIN)
    }

    fn run(&self) {
        let Some(ready) = self.ready.get() else {
            return;
        };
        let mut events = [EpollEvent::empty(); 16];
        loop {
            let count = ready.wait(&mut events, EpollTimeout::NONE).unwrap_or(0);
            for event in &events[..count] {
                let fd = RawFd::try_from(event.data()).unwrap_or(-1);
                let socket = self.sockets.lock().get(&fd).and_then(Weak::upgrade);
                if let Some(socket) = socket {
                    socket.handle_udp(TURNS);
                }
            }
        }
    }
}

impl Datagram {
    /// Called once the socket has a port: records its address and starts serving it.
    pub(super) fn register_with_service(&self, state: &mut State) -> Result<(), Error> {
        state.bound = Some(self.udp.local()?);
        state.local = state.bound;
        Ok(SERVICE.get().add(self)?)
    }
}
