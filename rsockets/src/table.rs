//! The sockets of the process, by descriptor.

use crate::alive::Alive;
use crate::any::AnySocket;
use crate::datagram::{Datagram, Service};
use crate::error::Error;
use crate::lingering::{self, Lingering};
use crate::nic::Nics;
use nix::errno::Errno;
use parking_lot::{Mutex, RwLock};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Everything that belongs to this process. A forked child starts with a new table: the sockets of
/// its parent stay with the parent.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) nics: Nics,
    pub(crate) alive: Alive,
    pub(crate) lingering: Lingering,
    pub(crate) service: Service,
    sockets: RwLock<Vec<Option<AnySocket>>>,
}

static CURRENT: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// The table, which is made if there is none.
pub(crate) fn table() -> &'static Table {
    if let Some(table) = existing() {
        return table;
    }
    // Registered before there is anything that a child must not use. If the system has no memory
    // for the handler, a child sees its parent's sockets, and every use of them fails there.
    static REGISTERED: Mutex<bool> = Mutex::new(false);
    let mut registered = REGISTERED.lock();
    if !*registered {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe, and this code
        // is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // SAFETY: as above. If the system refuses, peers learn of the end from the connection
        // manager alone.
        unsafe { libc::atexit(lingering::at_exit) };
        *registered = true;
    }
    if let Some(table) = existing() {
        return table;
    }
    let new = Box::leak(Box::<Table>::default());
    CURRENT.store(new, Ordering::Release);
    new
}

fn existing() -> Option<&'static Table> {
    // SAFETY: tables are leaked, so a pointer that is not null stays valid.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Called in a forked child. The parent's table may be locked for ever, so it is left alone.
extern "C" fn in_child() {
    CURRENT.store(ptr::null_mut(), Ordering::Release);
}

impl Table {
    pub(crate) fn insert(&self, socket: AnySocket) -> RawFd {
        let fd = socket.fd();
        let mut sockets = self.sockets.write();
        let place = usize::try_from(fd).unwrap_or(0);
        if sockets.len() <= place {
            sockets.resize(place + 1, None);
        }
        sockets[place] = Some(socket);
        fd
    }

    pub(crate) fn remove(&self, fd: RawFd) -> Option<AnySocket> {
        let place = usize::try_from(fd).ok()?;
        self.sockets.write().get_mut(place)?.take()
    }

    fn get(&self, fd: RawFd) -> Option<AnySocket> {
        let place = usize::try_from(fd).ok()?;
        self.sockets.read().get(place)?.clone()
    }

    pub(crate) fn all(&self) -> Vec<AnySocket> {
        self.sockets.read().iter().flatten().cloned().collect()
    }

    /// The socket of datagrams with a descriptor.
    pub(crate) fn datagram(&self, fd: RawFd) -> Option<Arc<Datagram>> {
        self.get(fd)?.datagram().ok().cloned()
    }
}

/// The socket with a descriptor, if the descriptor is that of an rsocket.
pub(crate) fn lookup(fd: RawFd) -> Option<AnySocket> {
    existing()?.get(fd)
}

/// The socket with a descriptor.
///
/// # Errors
/// EBADF if there is none.
pub(crate) fn find(fd: RawFd) -> Result<AnySocket, Error> {
    lookup(fd).ok_or_else(|| Errno::EBADF.into())
}
