//! The process's sockets by descriptor.

use crate::any::{AnySocket, either};
use crate::error::Error;
use crate::lingering;
use nix::errno::Errno;
use parking_lot::RwLock;
use roce_trust::fork::PerProcess;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long exit waits for peers at most.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Table {
    sockets: RwLock<Vec<Option<AnySocket>>>,
}

static TABLE: PerProcess<Table> = PerProcess::new();

/// The table, created on first use.
pub(crate) fn table() -> &'static Table {
    if let Some(table) = TABLE.existing() {
        return table;
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: this code is never unloaded. If this fails, only the connection manager tells peers
        // that the process has exited.
        unsafe { libc::atexit(at_exit) };
    }
    TABLE.get()
}

/// Runs at exit: lets peers receive everything that was sent.
extern "C" fn at_exit() {
    let Some(table) = TABLE.existing() else {
        return;
    };
    let end = Instant::now() + EXIT_LIMIT;
    for socket in table.all() {
        let left = end.saturating_duration_since(Instant::now());
        either!(socket, socket => socket.flush_at_exit(left));
    }
    lingering::wait_until(end);
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

    fn all(&self) -> Vec<AnySocket> {
        self.sockets.read().iter().flatten().cloned().collect()
    }
}

/// The socket with this descriptor; `None` if it is not an rsocket.
pub(crate) fn lookup(fd: RawFd) -> Option<AnySocket> {
    TABLE.existing()?.get(fd)
}

/// The socket with this descriptor.
///
/// # Errors
/// EBADF if it is not an rsocket.
pub(crate) fn find(fd: RawFd) -> Result<AnySocket, Error> {
    lookup(fd).ok_or_else(|| Errno::EBADF.into())
}
